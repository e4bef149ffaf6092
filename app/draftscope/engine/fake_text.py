"""What the scripted engine can say: a small vocabulary of readable words and a few texts, code and prose."""

from __future__ import annotations

import re
import zlib
from dataclasses import dataclass

EOS, BOS, TURN_START, TURN_END = range(4)
_NAMES = ("<|end|>", "<|begin|>", "<|turn|>", "<|done|>")
_FIRST_BYTE = len(_NAMES)
_FIRST_WORD = _FIRST_BYTE + 256

CHAT_TEMPLATE = (
    "{{ bos_token }}{% for message in messages %}<|turn|>{{ message['role'] }}\n{{ message['content'] }}<|done|>\n"
    "{% endfor %}{% if add_generation_prompt %}<|turn|>assistant\n{% endif %}"
)


@dataclass(frozen=True, slots=True)
class Text:
    """A text, the share of its tokens that an average draft guesses, and words of prompts that call for it."""

    content: str
    predictability: float
    cues: tuple[str, ...]


TEXTS = (
    Text(
        '''    def push(self, item):
        """Put an item on top of the stack."""
        self._items.append(item)

    def pop(self):
        """Take the item on top.

        Raises:
            IndexError: the stack is empty.
        """
        if not self._items:
            raise IndexError("pop from an empty stack")
        return self._items.pop()

    def __len__(self):
        return len(self._items)

    def __iter__(self):
        for item in reversed(self._items):
            yield item
''',
        0.9,
        ("class", "stack", "self", "def __"),
    ),
    Text(
        """    parser.add_argument("path", help="file to read")
    parser.add_argument("--count", type=int, default=10, help="how many lines to show")
    options = parser.parse_args(argv)
    try:
        with open(options.path, encoding="utf-8") as file:
            for number, line in enumerate(file, start=1):
                if number > options.count:
                    break
                print(f"{number:4}  {line.rstrip()}")
    except OSError as error:
        print(f"cannot read {options.path}: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
""",
        0.84,
        ("import", "main", "parser", "print"),
    ),
    Text(
        """ the old mill the river rose for three days, and the people of the valley carried their lamps to the
hill. Nobody slept. The miller counted the sacks that were left, and his daughter counted the children,
and each of them was afraid to say the number aloud.

On the fourth morning the water stood still. It was brown and quiet, and the roofs of the lower village
looked out of it like the backs of cattle. Then somebody laughed, because a goose was sitting on the
church, and with that the long fear was over. They rowed down together, and they found that the bridge
had held.
""",
        0.68,
        ("came to pass", "days", "beginning", "LORD", "once", "story"),
    ),
    Text(
        """ of light that reach us from the most distant stars left them before there was anyone to see it. A
telescope is therefore also a clock: the farther it looks, the older is what it shows. If the air were
still, a mirror twice as wide would show details half as large. The air is not still, and so a star
seems to dance — the warm and the cold layers bend its light a little to one side and then to the other.

A camera can follow that dance. It takes a thousand pictures a second, measures where the star has gone,
and moves a thin mirror back. What was a blur of 1″ becomes a point.
""",
        0.6,
        ("light", "star", "sky", "explain", "why"),
    ),
    Text(
        """ an object that gives its items one after the other. It has two methods: one that returns the object
itself, and one that returns the next item or says that there is none. A loop calls the first method
once and the second one until the end.

.. note::

   An object of this kind can be used only once. To go through the items again, ask for a new one.

.. method:: close()

   Release what the object holds. Calling it a second time has no effect. After it, every other method raises
   :exc:`ValueError`.
""",
        0.75,
        ("module", "object", "iterator", "provides", "queue"),
    ),
    Text(
        """The function takes a list and returns a new one without duplicates, in the order of their first appearance:

```python
def unique(items):
    seen = set()
    result = []
    for item in items:
        if item not in seen:
            seen.add(item)
            result.append(item)
    return result
```

For example, `unique([3, 1, 3, 2])` gives `[3, 1, 2]`. The set makes the test fast; the list keeps the order. Words
such as 日本語 are kept like any others.
""",
        0.8,
        ("write", "Write", "function", "?"),
    ),
)

_PIECE = re.compile(r" ?\w+|\s+(?=\S)|\s+$|[^\w\s]{1,3}")


def _words() -> tuple[bytes, ...]:
    found = {piece: None for text in TEXTS for piece in _PIECE.findall(text.content) if piece.isascii()}
    return tuple(word.encode() for word in sorted(found))


WORDS = _words()
N_VOCAB = _FIRST_WORD + len(WORDS)
_IDS = {word: _FIRST_WORD + index for index, word in enumerate(WORDS)}
_SPECIAL = re.compile("(" + "|".join(re.escape(name) for name in _NAMES) + ")")


def piece(token: int) -> bytes:
    """The bytes of a token."""
    if token < _FIRST_BYTE:
        return _NAMES[token].encode()
    if token < _FIRST_WORD:
        return bytes([token - _FIRST_BYTE])
    return WORDS[token - _FIRST_WORD]


def tokenize(text: str, *, parse_special: bool, add_special: bool) -> tuple[int, ...]:
    """Token ids of a text: words where the vocabulary has them, bytes elsewhere."""
    tokens = [BOS] if add_special else []
    for index, part in enumerate(_SPECIAL.split(text) if parse_special else [text]):
        if index % 2:
            tokens.append(_NAMES.index(part))
        else:
            tokens += _tokens_of(part)
    return tuple(tokens)


def _tokens_of(text: str) -> list[int]:
    tokens: list[int] = []
    end = 0
    for match in _PIECE.finditer(text):
        tokens += [_FIRST_BYTE + byte for byte in text[end : match.start()].encode()]
        word = match.group().encode()
        tokens += [_IDS[word]] if word in _IDS else [_FIRST_BYTE + byte for byte in word]
        end = match.end()
    return tokens + [_FIRST_BYTE + byte for byte in text[end:].encode()]


@dataclass(frozen=True, slots=True)
class Continuation:
    """The tokens that the scripted model says after a prompt, EOS the last, and how well they can be guessed."""

    tokens: tuple[int, ...]
    predictability: float


def continuation(prompt: tuple[int, ...], seed: int) -> Continuation:
    """The text that the prompt calls for; where it calls for none, one chosen by prompt and seed.

    The same prompt and seed give the same tokens, in whatever slot.
    """
    said = b"".join(map(piece, prompt)).decode("utf-8", "replace")
    called = [sum(cue in said for cue in text.cues) for text in TEXTS]
    candidates = [text for text, n in zip(TEXTS, called, strict=True) if n == max(called)]
    text = candidates[zlib.crc32(repr((prompt, seed)).encode()) % len(candidates)]
    return Continuation((*_tokens_of(text.content), EOS), text.predictability)
