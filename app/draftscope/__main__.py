"""``python -m draftscope`` is the ``draftscope`` command."""

from draftscope.main import main

if __name__ == "__main__":
    raise SystemExit(main())
