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
        test) packages="$packages xvfb xdotool fluxbox" ;;
        *) echo "system_packages.sh: '$purpose' is none of build, window, test." >&2; exit 2 ;;
    esac
done

if ! command -v dpkg-query >/dev/null 2>&1; then
    echo "This is not a Debian system. Draftscope needs what these packages have there:" $packages >&2
    exit 0
fi

missing=""
for package in $packages; do
    status=$(dpkg-query -W -f='${db:Status-Status}' "$package" 2>/dev/null || true)
    [ "$status" = installed ] || missing="$missing $package"
done
# Another Python than Debian's brings its own venv and headers.
if [ -n "$missing" ] && python3 -c 'import ensurepip, sysconfig, os, sys; sys.exit(not os.path.exists(os.path.join(sysconfig.get_path("include"), "Python.h")))' 2>/dev/null; then
    missing=$(for package in $missing; do case "$package" in python3|python3-venv|python3-dev) ;; *) printf ' %s' "$package" ;; esac; done)
fi
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
