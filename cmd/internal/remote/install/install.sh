{
n=@NONCE@
dir='@DIR@'
say() { printf '\n%s %s\n' "$n" "$*"; }
refuse() { trap '' 1 2 13 15; say no "$*"; exit 3; }
note() { tried="$tried${tried:+; }$*"; }
tried= part= watcher=
trap 'trap "" 1 2 13 15; [ -z "$part" ] || rm -f "$part"; [ -z "$watcher" ] || unwatch' 0
stops() { trap 'trap "" 1 2 13 15; exit 4' 1 2 13 15; }
stops
set -f
umask 077
LC_ALL=C PATH=${PATH:+$PATH:}/usr/local/bin:/usr/bin:/bin
export LC_ALL PATH

sum() {
	if command -v sha256sum >/dev/null 2>&1; then sha256sum <"$1"
	elif command -v shasum >/dev/null 2>&1; then shasum -a 256 <"$1"
	else openssl dgst -sha256 -r <"$1"
	fi | { read -r s rest; echo "$s"; }
}
# A client may be gone while this input stays open, as in a step of Slurm whose srun was killed. So
# the script ends when the file $1 has not grown in @LOOKS@ checks, @PAUSE@ seconds apart.
#
# In dash and busybox, a new child keeps the traps of its parent until it sets traps itself or runs
# another program, and a signal before that is lost. So a watch starts without traps, and its sleep is
# killed.
watch() {
	trap - 0 1 2 13
	none=$! left=@LOOKS@ was=
	trap '[ "$!" = "$none" ] || { kill -9 $!; wait $!; }; exit' 15
	while [ "$left" -gt 0 ]; do
		sleep @PAUSE@ &
		wait "$!"
		now=$(wc -c <"$1")
		if [ "$now" = "$was" ]; then left=$((left - 1)); else left=@LOOKS@ was=$now; fi
	done
	trap - 15
	kill -15 0
}
begin() {
	trap - 1 2 13 15
	watch "$1" </dev/null >/dev/null 2>&1 &
	watcher=$!
	stops
}
unwatch() { { kill "$watcher" && wait "$watcher"; } 2>/dev/null; watcher=; }
# ours succeeds for a directory that no other user can change or replace.
ours() {
	case $1 in */turnstone/bin) own "${1%/bin}" go-w || return 1 ;; esac
	own "$1" 700
}
own() { [ -d "$1" ] && [ ! -L "$1" ] && [ -O "$1" ] && chmod "$2" "$1" 2>/dev/null; }
# fits succeeds if a program of $size bytes can be stored in the directory $1, and run.
fits() {
	case $1 in [!/]* | *[!A-Za-z0-9_./=-]*) note "$1 has a character that a shell on the way could change"; return 1 ;; esac
	mkdir -p "$1" 2>/dev/null || { note "$1 cannot be made"; return 1; }
	ours "$1" || { note "$1 belongs to another user"; return 1; }
	part=$1/try.$$.$n
	if ! { printf '#!/bin/sh\nexit 0\n' >"$part"; } 2>/dev/null; then note "$1 cannot be written"
	elif ! chmod 700 "$part" || ! "$part" 2>/dev/null </dev/null; then note "$1 does not let programs run (noexec)"
	else
		room=$(df -Pk "$1" 2>/dev/null | { read -r line; read -r a b c room rest; echo "$room"; })
		case $room in '' | *[!0-9]*) room=$need ;; esac
		[ "$room" -ge "$need" ] && rm -f "$part" && return 0
		note "$1 has $room KiB left and $need are needed"
	fi
	rm -f "$part"
	return 1
}

command -v sha256sum >/dev/null 2>&1 || command -v shasum >/dev/null 2>&1 || command -v openssl >/dev/null 2>&1 ||
	refuse "none of sha256sum, shasum and openssl is there to check it"
packed=plain
command -v gzip >/dev/null 2>&1 && packed=gzip
begin /dev/null
say here "$(uname -s 2>/dev/null || echo unknown)" "$(uname -m 2>/dev/null || echo unknown)" $packed
read -r hash size || exit 5
name=repl-$(printf %.16s "$hash")
need=$((size / 1024 + 1024))
u=$(id -u)
cache=${XDG_CACHE_HOME:-${HOME:+$HOME/.cache}}
set -- "${dir:+$dir/turnstone/bin}" "${cache:+$cache/turnstone/bin}" "${TMPDIR:-/tmp}/turnstone-bin-$u" "/var/tmp/turnstone-bin-$u" "/dev/shm/turnstone-bin-$u"

for d; do
	f=$d/$name
	if [ -n "$d" ] && ours "$d" && [ -f "$f" ] && [ "$(sum "$f")" = "$hash" ] && v=$("$f" version 2>/dev/null </dev/null); then
		touch "$f"
		unwatch
		say have "$f" $v
		exit 0
	fi
done
at=
for d; do
	[ -n "$d" ] && fits "$d" && at=$d && break
done
part=
[ -n "$at" ] || refuse "there is no directory for it: $tried"
say send "$at"
read -r bytes || exit 5
part=$at/$name.part.$$.$n
unwatch
begin "$part"
if [ $packed = gzip ]; then
	failure=$({ head -c "$bytes" | gzip -dc >"$part"; } 2>&1)
else
	failure=$({ head -c "$bytes" >"$part"; } 2>&1)
fi || refuse "it did not arrive whole, or cannot be written to $at:" $failure
got=$(sum "$part")
[ "$got" = "$hash" ] || refuse "it was damaged on the way: its hash is $got and not $hash"
chmod 700 "$part"
v=$("$part" version 2>&1 </dev/null) || refuse "it does not run there: status $?, $(printf %.300s "$v" | tr '\n' ' ')"
mv -f "$part" "$at/$name" || refuse "it cannot be given its name in $at"
part=
find "$at" -name 'repl-*.part.*' -mtime +0 -exec rm -f {} \; 2>/dev/null
# A program that runs on Linux no longer needs its file.
[ "$(uname -s)" != Linux ] || ls -t "$at" | grep '^repl-[0-9a-f]*$' | tail -n +5 | while read -r old; do rm -f "$at/$old"; done
say 'done' "$at/$name" $v
exit 0
}
