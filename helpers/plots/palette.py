"""The colours of the course: one for each thing it draws again and again."""

# Okabe and Ito's palette: told apart by colour-blind readers, and by lightness in grey print
POLICY, REFERENCE, REWARD, KL = "#0072B2", "#7F7F7F", "#009E73", "#D55E00"
VALUE, GOLD, ACCENT = "#CC79A7", "#E69F00", "#56B4E9"
