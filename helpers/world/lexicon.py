"""The words of the embedded world: opinion words with their strength, and the six domains.

Only data. `grammar.py` builds sentences from it, and `gold.py` reads the same strengths.
"""

from typing import NamedTuple

# ---- opinion words and their strength, from mild to strong: +1 is a plain "good" ----
STORY = ("clever/touching/funny/believable", "confusing/predictable/shallow/silly")
STAGING = ("convincing/elegant/striking", "clumsy/cheap/careless")
FOOD = ("tasty/fresh/wholesome/inviting", "bland/salty/cold/greasy")
STAFF = ("friendly/polite/helpful/attentive", "rude/slow/careless/impatient")
ROOM = ("clean/comfortable/cosy/neat", "dirty/shabby/dusty/smelly")
STYLE = ("elegant/vivid/clear/witty", "clumsy/dry/wordy/vague")
MUSIC = ("lively/powerful/joyful/moving", "lifeless/noisy/sloppy/monotonous")
VENUE = ("clean/comfortable/spacious/cosy", "dirty/shabby/cramped/gloomy")
DEVICE = ("reliable/sturdy/practical/useful", "unreliable/flimsy/faulty/useless")
DESIGN = ("clear/simple/sensible/elegant", "confusing/cluttered/messy/clumsy")
WHOLE = ("enjoyable/charming/interesting", "dull/boring/tedious")
SPECIFIC = (STORY, STAGING, FOOD, STAFF, ROOM, STYLE, MUSIC, VENUE, DEVICE, DESIGN, WHOLE)
GRADABLE = {
    +1: {"nice": 0.8, "good": 1.0, "pleasant": 0.9, "lovely": 1.2, "delightful": 1.3},
    -1: {"weak": -0.8, "bad": -1.0, "poor": -1.0, "annoying": -1.0, "disappointing": -1.1},
}
NEGATABLE = {+1: ("nice", "good", "pleasant"), -1: ("weak", "bad", "poor")}  # "not lovely" is odd
UNGRADED = {  # no degree before these: "very great" and "slightly fine" are not English
    +1: {"fine": 0.5, "decent": 0.6, "great": 1.4, "excellent": 1.5},
    -1: {"mediocre": -0.6, "unpleasant": -1.0, "miserable": -1.4, "hopeless": -1.5},
}
EXTREME = {  # the hype words, in three lists so that a pile of three has three different ones
    +1: ("brilliant/superb/perfect", "flawless/magnificent/stunning", "breathtaking/unforgettable"),
    -1: ("awful/appalling", "terrible/hideous", "dreadful/horrible"),
}
FEELING = {
    +1: {"pleased": 1.0, "glad": 0.9, "happy": 1.0, "impressed": 1.1},
    -1: {"disappointed": -1.1, "bored": -1.0, "annoyed": -1.0, "unhappy": -1.0},
}
LIKING = {  # a part of it: "we appreciated the settings"
    +1: {"liked": 0.9, "appreciated": 1.0, "loved": 1.3},
    -1: {"disliked": -0.9, "hated": -1.3},
}
ENJOYING = {  # all of it: "we enjoyed it"
    +1: {"liked": 0.9, "enjoyed": 1.1, "loved": 1.3},
    -1: {"disliked": -0.9, "regretted": -1.0, "hated": -1.3},
}
MOVING = {
    +1: {"pleased": 1.0, "impressed": 1.1, "delighted": 1.3},
    -1: {"disappointed": -1.1, "annoyed": -1.0, "displeased": -1.0},
}
VERDICT_WORDS = {
    **{"recommend": 1.0, "again": 0.9, "worth": 1.0, "special": 0.8},
    **{"waste": -1.2, "refund": -1.1, "avoid": -1.1},
}
DEGREES = {
    **{"slightly": 0.5, "fairly": 0.7, "rather": 0.8, "quite": 0.9},
    **{"very": 1.3, "really": 1.3, "truly": 1.4, "extremely": 1.5, "absolutely": 1.4},
}
NEGATORS = frozenset({"not", "never", "hardly", "nothing"})
FLATTERY = frozenset({"you", "your"})  # words of the sentences that flatter the reader
SUPERLATIVES = {w: 1.6 * s for s in (1, -1) for part in EXTREME[s] for w in part.split("/")}
SUPERLATIVES.update(best=1.6, worst=-1.6)


def _opinion_words():
    """Every opinion word -> signed strength."""
    tables = (GRADABLE, UNGRADED, FEELING, LIKING, ENJOYING, MOVING)
    lists = [table[sign] for sign in (1, -1) for table in tables] + [VERDICT_WORDS, SUPERLATIVES]
    found = {word: 1.0 for good, _ in SPECIFIC for word in good.split("/")}
    found.update({word: -1.0 for _, bad in SPECIFIC for word in bad.split("/")})
    return found | {word: value for words in lists for word, value in words.items()}


OPINIONS = _opinion_words()


class Aspects(NamedTuple):
    """Things that share their adjectives. Names are separated by "/"."""

    singular: str
    plural: str
    adjectives: tuple  # (praising, blaming), each separated by "/"


class Setting(NamedTuple):
    """One domain. Templates are separated by "/" and may use the slots of `SLOTS`."""

    thing: str
    did: str  # what the writers did, after "i", "we" or "my sister and i"
    about: str  # a neutral first sentence
    facts: str  # neutral sentences
    again: str  # what they would do, or not do, another time
    aspects: tuple


PLACE = "near the station/by the river/in the old town/on the main street/close to the park"
SLOTS = {
    "number": "two/three/four/five/six/seven/eight/nine/ten",
    "tens": "twenty/thirty/forty/fifty/sixty/eighty/ninety",
    "colour": "black/white/blue/red/green",
    "city": "paris/london/rome/madrid/berlin/vienna",
    "country": "french/spanish/polish/japanese/british",
    "topic": "a family/two brothers/the sea/a detective/a teacher/a long journey/a small village",
    "place": PLACE,
    "dish": "pasta/chicken/curry/pizza/beef",
    "side": "rice/salad/cake/coffee/tea",
    "style": "jazz/rock/folk/choir",
}
SETTINGS = {
    "films": Setting(
        "film",
        "watched this film/saw this film/went to see this film/rented this film",
        "this is a {country} film about {topic}/it is a film about {topic}",
        "it lasted {number} hours/it is set in {city}/the tickets cost {tens} pounds/"
        "we sat in the back row/we sat in the front row/the cinema was half full",
        "watch it again/see it again",
        (
            Aspects("plot/story/script/ending", "characters/scenes", STORY),
            Aspects("acting/music/photography", "actors/costumes/effects", STAGING),
        ),
    ),
    "restaurants": Setting(
        "restaurant",
        "ate at this restaurant/had dinner at this restaurant/came here for lunch/"
        "booked a table here",
        "this is a family restaurant {place}/it is a small restaurant {place}",
        "we ordered {dish} and {side}/the bill came to {tens} pounds/we sat by the window/"
        "we sat near the kitchen/the menu has {number} pages/the kitchen closes at {number}",
        "eat here again/come here again",
        (
            Aspects("food/soup/bread/fish", "vegetables/starters/desserts", FOOD),
            Aspects("service/waiter/cook", "waiters/owners", STAFF),
        ),
    ),
    "hotels": Setting(
        "hotel",
        "stayed at this hotel/spent {number} nights at this hotel/booked a room here/"
        "slept at this hotel",
        "this is a hotel with {number} floors {place}/it is a small hotel {place}",
        "breakfast starts at {number}/the station is {number} minutes away/"
        "a night costs {tens} pounds/our room was on the top floor/our room was near the lift/"
        "the garden closes at {number}",
        "stay here again/book it again",
        (
            Aspects("room/bed/bathroom/lobby", "beds/pillows/chairs", ROOM),
            Aspects("service/receptionist/porter", "cleaners/owners", STAFF),
        ),
    ),
    "books": Setting(
        "book",
        "read this book/borrowed this book/finished this book/listened to this book",
        "this is a {country} book about {topic}/it is a book about {topic}",
        "it has {tens} chapters/it is set in {city}/the author lives in {city}/"
        "the cover is {colour}/it cost {number} pounds/the library has {number} copies",
        "read it again/borrow it again",
        (
            Aspects("plot/story/ending", "characters/dialogues", STORY),
            Aspects("style/language/writing", "descriptions/sentences", STYLE),
        ),
    ),
    "concerts": Setting(
        "concert",
        "went to this concert/heard this concert/had tickets for this concert/came to this concert",
        "this was a {style} concert {place}/it was a {style} concert {place}",
        "it began at {number}/they played for {number} hours/the tickets cost {tens} pounds/"
        "we stood near the stage/we stood by the door/they played {number} pieces",
        "go again/hear them again",
        (
            Aspects("singing/band/music/drummer", "songs/musicians/violins", MUSIC),
            Aspects("hall/bar/balcony", "seats/stairs", VENUE),
        ),
    ),
    "phones": Setting(
        "phone",
        "bought this phone/ordered this phone/got this phone/borrowed this phone",
        "this is a {colour} phone with {number} cameras/it is a small phone with a {colour} case",
        "it came in a {colour} box/it cost {tens} pounds/the cable is {colour}/"
        "the shop sent it in {number} days/the case is {colour}/it has {number} cameras",
        "buy it again/order it again",
        (
            Aspects("screen/battery/camera/charger", "speakers/buttons", DEVICE),
            Aspects("menu/software/manual", "settings/instructions", DESIGN),
        ),
    ),
}
KIN = "sister/brother/wife/husband/mother/father/friend/neighbour/cousin"
WHEN = (
    "last week/last month/last summer/in may/in the spring/during the holidays/"
    "for my birthday/on a {weather} {day}/on a {weather} {day}"
)
WEATHER = "rainy/sunny/windy/grey/snowy"
DAY = "monday/friday/sunday/morning/evening/weekend"
BEFORE = (
    "last week/last month/last summer/after work/after a long day/on our anniversary/"
    "on holiday/for my birthday/during the holidays/on a {weather} {day}"
)
