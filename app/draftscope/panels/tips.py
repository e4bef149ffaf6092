"""Tooltips of texts that come from files: shown as they are written, whatever markup is in them.

Qt takes a tooltip that looks like HTML for HTML, and then even loads the pictures that it names.
"""

from __future__ import annotations

from html import escape

from PySide6.QtGui import Qt


def plain_tip(text: str) -> str:
    """The text for a tooltip, such that Qt shows exactly it."""
    # Anything else is left as it is: Qt would show what is escaped in a plain text as it stands.
    return f"<p style='white-space: pre-wrap'>{escape(text)}</p>" if Qt.mightBeRichText(text) else text
