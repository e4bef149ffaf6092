#!/bin/sh
# Start the window; without a display say so and run the demo in the terminal.
set -eu
bin="$(dirname "$0")/../.venv/bin"
if [ -n "${DISPLAY:-}${WAYLAND_DISPLAY:-}" ] || [ "$(uname)" = Darwin ]; then
    exec "$bin/draftscope"
fi
echo "There is no display, so the demo runs here instead of in the window (the same as 'draftscope run demo'):"
exec "$bin/draftscope" run demo
