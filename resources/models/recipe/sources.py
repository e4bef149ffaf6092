"""The texts that the model is trained on, read from where Python and Debian have them (see ../README.md)."""

from __future__ import annotations

import ast
import os
import random
import re
import textwrap
from collections.abc import Iterator
from pathlib import Path

_SHORT = (
    "Ge Exo Lev Num Deu Josh Jdgs Ruth 1Sm 2Sm 1Ki 2Ki 1Chr 2Chr Ezra Neh Est Job Psa Prv Eccl SSol Isa Jer Lam Eze "
    "Dan Hos Joel Amos Obad Jonah Mic Nahum Hab Zep Hag Zec Mal Mat Mark Luke John Acts Rom 1Cor 2Cor Gal Eph Phi Col "
    "1Th 2Th 1Tim 2Tim Titus Phmn Heb Jas 1Pet 2Pet 1Jn 2Jn 3Jn Jude Rev"
)
_LONG = (
    "Genesis|Exodus|Leviticus|Numbers|Deuteronomy|Joshua|Judges|Ruth|1 Samuel|2 Samuel|1 Kings|2 Kings|"
    "1 Chronicles|2 Chronicles|Ezra|Nehemiah|Esther|Job|Psalm|Proverbs|Ecclesiastes|Song of Solomon|Isaiah|"
    "Jeremiah|Lamentations|Ezekiel|Daniel|Hosea|Joel|Amos|Obadiah|Jonah|Micah|Nahum|Habakkuk|Zephaniah|"
    "Haggai|Zechariah|Malachi|Matthew|Mark|Luke|John|Acts|Romans|1 Corinthians|2 Corinthians|Galatians|"
    "Ephesians|Philippians|Colossians|1 Thessalonians|2 Thessalonians|1 Timothy|2 Timothy|Titus|Philemon|"
    "Hebrews|James|1 Peter|2 Peter|1 John|2 John|3 John|Jude|Revelation"
)
BOOKS = dict(zip(_SHORT.split(" "), _LONG.split("|"), strict=True))
"""Abbreviations of the program ``bible`` -> names."""

Verse = tuple[str, int, int, str]
"""Book, chapter, verse, text."""

_SKIPPED = {
    "test", "tests", "idle_test", "idlelib", "site-packages", "encodings", "lib2to3", "pydoc_data", "__pycache__",
    "_bundled",
}  # fmt: skip
_ROLE = re.compile(r":[\w:+-]+:`[!~]?([^`<]*?)(?:\s*<[^`>]*>)?`")
_DIRECTIVE = re.compile(
    r"(?m)^\s*\.\. (module|moduleauthor|sectionauthor|index|_|testsetup|testcleanup|versionadded|versionchanged|"
    r"highlight|audit-event)\b.*\n"
)
_MARK = re.compile(r"(?m)^\s*:synopsis:.*\n|^\*\*Source code:\*\*.*\n|^-{6,}\n")
_MAX_FUNCTION_CHARACTERS = 1400


def python_sources(root: Path) -> list[str]:
    """Sources of the standard library, without tests, generated tables and packages of others."""
    texts = []
    for folder, folders, files in os.walk(root):
        folders[:] = sorted(d for d in folders if d not in _SKIPPED and not d.startswith("config-"))
        for name in sorted(files):
            if name.endswith(".py") and not name.startswith("_sysconfigdata"):
                text = Path(folder, name).read_text(encoding="utf-8", errors="ignore")
                text = text.replace("\r\n", "\n").expandtabs(8)
                if len(text) > 200:
                    texts.append(text)
    return texts


def bible(path: Path) -> tuple[list[str], list[Verse]]:
    """Chapters, and single verses, from the output of ``bible``."""
    chapters: list[str] = []
    verses: list[Verse] = []
    last: tuple[str, int] | None = None
    for line in path.read_text(encoding="utf-8").splitlines():
        match = re.match(r"([1-3]?[A-Za-z]+)(\d+):(\d+) (.*)", line)
        if not match:
            continue
        book, chapter, verse = BOOKS[match[1]], int(match[2]), int(match[3])
        text = re.sub(r"\s+", " ", match[4]).strip()
        if (book, chapter) != last:
            chapters.append(f"{book} {chapter}\n\n")
            last = (book, chapter)
        chapters[-1] += text + "\n"
        verses.append((book, chapter, verse, text))
    return chapters, verses


def manual(root: Path) -> list[str]:
    """Pages of the Python manual, roles and directives simplified."""
    texts = []
    for part in ("tutorial", "howto", "faq", "reference", "library"):
        for path in sorted((root / part).iterdir()):
            text = _ROLE.sub(r"`\1`", path.read_text(encoding="utf-8"))
            text = _MARK.sub("", _DIRECTIVE.sub("", text))
            text = re.sub(r"\n{3,}", "\n\n", text)
            if len(text) > 300:
                texts.append(text.strip() + "\n")
    return texts


def chats(sources: list[str], verses: list[Verse], rng: random.Random) -> list[str]:
    """Conversations of one question and one answer, made of functions with docstrings and of verses."""
    texts = []
    for name, doc, source in _functions(sources):
        does = doc[0].lower() + doc[1:].rstrip(".") if doc[1:2].islower() else doc.rstrip(".")
        texts.append(
            _turn(f"Write a Python function {name} that does this: {does}.", f"```python\n{source.rstrip()}\n```")
        )
        if rng.random() < 0.4:
            texts.append(_turn(f"What does the Python function {name} do?", doc))
    for book, chapter, verse, text in rng.sample(verses, min(len(texts) // 3, len(verses))):
        texts.append(_turn(f"Quote {book} {chapter}:{verse}.", text))
    rng.shuffle(texts)
    return texts


def _functions(sources: list[str]) -> Iterator[tuple[str, str, str]]:
    """Name, first line of the docstring, and source of every short function that has one."""
    for text in sources:
        try:
            tree = ast.parse(text)
        except (SyntaxError, ValueError):
            continue
        lines = text.split("\n")
        for node in ast.walk(tree):
            doc = ast.get_docstring(node) if isinstance(node, ast.FunctionDef) else None
            if not isinstance(node, ast.FunctionDef) or not doc:
                continue
            source = textwrap.dedent("\n".join(lines[node.lineno - 1 : node.end_lineno]))
            first = doc.strip().split("\n")[0].strip()
            if len(source) <= _MAX_FUNCTION_CHARACTERS and 12 < len(first) < 120:
                yield node.name, first, source


def _turn(question: str, answer: str) -> str:
    return f"<|im_start|>user\n{question}<|im_end|>\n<|im_start|>assistant\n{answer}<|im_end|>\n"
