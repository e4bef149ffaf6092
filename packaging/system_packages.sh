#!/bin/sh
# Install the Debian packages that a purpose needs, or print the command when that takes another user.
#
#   packaging/system_packages.sh build|window|test ...
#
# Elsewhere than on Debian it says what is needed and goes on: what is really missing shows in the next step.
set -eu

packages=""
for purpose in "$@"; do
    case "$purpose" in
        build) packages="$packages python3 python3-venv python3-dev g++ git ccache" ;;
        window) packages="$packages libegl1 libgl1 libdbus-1-3 libfontconfig1 libglib2.0-0 libxkbcommon-x11-0
            libxcb-cursor0 libxcb-icccm4 libxcb-keysyms1 libxcb-shape0 fonts-dejavu-core" ;;
        test) packages="$packages xvfb xdotool fluxbox desktop-file-utils shared-mime-info libglib2.0-bin" ;;
        *) echo "system_packages.sh: '$purpose' is none of build, window, test." >&2; exit 2 ;;
    esac
done

if ! command -v dpkg-query >/dev/null 2>&1; then
    echo "This is not a Debian system. Draftscope needs what these packages have there:" $packages >&2
    exit 0
fi

is_installed() {
    # Newer releases renamed some libraries when their time_t grew (libglib2.0-0t64).
    for name in "$1" "$1t64"; do
        [ "$(dpkg-query -W -f='${db:Status-Status}' "$name" 2>/dev/null || true)" = installed ] && return 0
    done
    return 1
}

# Another Python than Debian's brings its own venv and headers.
is_python_whole() {
    "${PYTHON:-python3}" - 2>/dev/null <<'CHECK'
import ensurepip, os, sysconfig
raise SystemExit(not os.path.exists(os.path.join(sysconfig.get_path("include"), "Python.h")))
CHECK
}

missing=""
for package in $packages; do
    is_installed "$package" && continue
    case "$package" in
        python3 | python3-venv | python3-dev) is_python_whole && continue ;;
    esac
    missing="$missing $package"
done
[ -n "$missing" ] || exit 0

if [ "$(id -u)" = 0 ]; then
    echo "Installing system packages:$missing"
    apt-get update -qq
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $missing >/dev/null
else
    echo "These system packages are missing. Install them, then run make again:" >&2
    echo "    sudo apt-get install$missing" >&2
    exit 1
fi
