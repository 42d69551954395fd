"""How an answer is judged, whatever the exercise: run it, compare, look again, name the mistake."""
