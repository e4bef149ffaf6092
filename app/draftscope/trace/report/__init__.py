"""A run as one HTML file for a bug report: pictures and tables, nothing loaded from elsewhere, and no scripts."""

from draftscope.trace.report.page import report_page, write_report

__all__ = ["report_page", "write_report"]
