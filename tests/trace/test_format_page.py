"""The documented format is the one that is written."""

import sqlite3
from contextlib import closing
from pathlib import Path

from draftscope.trace.tracefile.codes import WORDS
from draftscope.trace.tracefile.format_page import page
from tests.trace.files import write

PAGE = Path(__file__).resolve().parents[2] / "docs" / "format.md"


def test_the_page_is_the_one_that_the_tables_make():
    assert PAGE.read_text(encoding="utf-8") == page(), (
        "python -m draftscope.trace.tracefile.format_page > docs/format.md"
    )


def test_every_table_and_column_of_a_file_is_on_the_page(tmp_path):
    text = page()
    with closing(sqlite3.connect(write(tmp_path / "x.dscope"))) as database:
        tables = [
            name for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type IN ('table', 'view')")
        ]
        assert len(tables) > 20
        for table in tables:
            assert f"`{table}`" in text
            for _, column, *_ in database.execute(f"PRAGMA table_info({table})"):
                assert column in text, f"{table}.{column}"
        words = {name: {} for name in WORDS}
        for name, code, word in database.execute("SELECT name, code, word FROM codes"):
            words[name][code] = word
    assert words == WORDS
