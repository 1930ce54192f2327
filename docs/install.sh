#!/bin/sh
# Installs tandem from the files of a release: the program, its completions and its manual pages. No root is needed.
#
#   sh install.sh [--to DIR] [--from URL]
#   sh install.sh --uninstall
#
#   --to DIR       where the program goes [~/.local/bin]
#   --from URL     the files of a release: SHA256SUMS, and an archive for each platform
#   --uninstall    remove what this script has installed
#
# The manual pages and completions go where programs look for those of a user, below $XDG_DATA_HOME, or else
# ~/.local/share. A list of all that was installed is in tandem/installed there. If anything fails, everything is as
# it was before.
set -eu
export LC_ALL=C

# The copy that belongs to a release has the address of its files here.
FROM=

say() { printf '%s\n' "$1"; }

die() {
  printf 'install.sh: %s\n' "$1" >&2
  exit 1
}

main() {
  from=$FROM to='' action=install
  while [ $# -gt 0 ]; do
    case $1 in
      --to | --from)
        if [ $# -lt 2 ] || [ -z "$2" ]; then die "$1 needs a value."; fi
        if [ "$1" = --to ]; then to=$2; else from=${2%/}; fi
        shift
        ;;
      --uninstall) action=uninstall ;;
      *) die "$1 is not known. It takes: [--to DIR] [--from URL], or --uninstall." ;;
    esac
    shift
  done

  case ${HOME:-} in
    /*) ;;
    *) die "HOME is not set. Set it to your home directory." ;;
  esac
  to=${to:-$HOME/.local/bin}
  case $to in /*) ;; *) to=$PWD/$to ;; esac
  # A relative directory means nothing there: https://specifications.freedesktop.org/basedir-spec
  case ${XDG_DATA_HOME:-} in /*) data=$XDG_DATA_HOME ;; *) data=$HOME/.local/share ;; esac
  record=$data/tandem/installed

  work=$(mktemp -d) || die "There is no temporary directory. Set TMPDIR to a directory that can be written."
  : >"$work/files"
  : >"$work/directories"
  trap clean_up EXIT
  trap 'exit 130' HUP INT TERM
  "$action"
}

# Takes back what is not finished.
clean_up() {
  while read -r _ path; do rm -f "$path.new-$$"; done <"$work/files"
  remove_empty "$work/directories"
  rm -rf "$work"
}

install() {
  if [ -z "$from" ]; then
    die "This copy belongs to no release. Name the address of a release's files with --from URL."
  fi
  find_platform
  require tar gzip

  say "Downloading SHA256SUMS from $from"
  download SHA256SUMS
  archive=$(sed -n "s/^[0-9a-f]* [ *]\(tandem-[0-9A-Za-z.+_-]*-$platform\.tar\.gz\)\$/\1/p" "$work/SHA256SUMS" | head -n 1)
  if [ -z "$archive" ]; then die "The release has no archive for $platform. $BUILD_IT"; fi
  say "Downloading $archive"
  download "$archive"
  actual=$(checksum "$work/$archive")
  if ! grep -q "^$actual [ *]$archive\$" "$work/SHA256SUMS"; then
    die "The checksum of $archive is $actual, which is not the one in SHA256SUMS. Nothing was installed. Try again later."
  fi
  say "The checksum is right"

  mkdir "$work/release"
  # -o: the files belong to the user who installs them, root as well.
  tar -xzof "$work/$archive" -C "$work/release" || die "$archive cannot be unpacked. Is the disk full?"
  stage_all
  version=$("$to/tandem.new-$$" --version </dev/null) || die "The program does not run on this machine. $BUILD_IT"
  finish
  report
}

BUILD_IT="Build it from a copy of the repository: cargo install --locked --path ."
UNCHANGED="Nothing was installed. See to that directory, or choose another for the program with --to DIR."

find_platform() {
  case $(uname -s) in
    Linux) platform=linux ;;
    Darwin) platform=darwin ;;
    *) die "There is no archive for $(uname -s). $BUILD_IT" ;;
  esac
  case $(uname -m) in
    x86_64 | amd64) platform=$platform-x86_64 ;;
    aarch64 | arm64) platform=$platform-aarch64 ;;
    *) die "There is no archive for the processor $(uname -m). $BUILD_IT" ;;
  esac
}

has() { command -v "$1" >/dev/null 2>&1; }

require() {
  for program in "$@"; do
    if ! has "$program"; then die "$program is missing. Install it with your system's packages, then try again."; fi
  done
}

# Downloads a file of the release into the temporary directory.
download() {
  if has curl; then
    # Nothing that began with TLS goes on without.
    case $from in https:*) protocol='=https' ;; *) protocol='=http,https' ;; esac
    curl -fsSL --proto "$protocol" -o "$work/$1" "$from/$1" || die "$from/$1 cannot be downloaded. Nothing was installed."
  elif has wget; then
    wget -q -O "$work/$1" "$from/$1" || die "$from/$1 cannot be downloaded. Nothing was installed."
  else
    die "Neither curl nor wget is here. Install one of them, then try again."
  fi
}

checksum() {
  if has sha256sum; then
    sum=$(sha256sum <"$1")
  elif has shasum; then
    sum=$(shasum -a 256 <"$1")
  else
    die "Neither sha256sum nor shasum is here. Install one of them, then try again."
  fi
  printf '%s\n' "${sum%% *}"
}

# Returns whether a file is as this script has installed it.
is_installed() {
  [ -f "$record" ] && [ -f "$1" ] && [ ! -L "$1" ] && grep -Fqx "$(checksum "$1")  $1" "$record"
}

# Puts each file beside its place, under another name.
stage_all() {
  if [ -e "$to/tandem" ] || [ -L "$to/tandem" ]; then
    if ! is_installed "$to/tandem"; then
      die "$to/tandem is there already, and is not what this script has installed. Remove it, or choose another directory with --to DIR."
    fi
  fi
  stage "$work/release/tandem" "$to/tandem" 755
  for page in "$work"/release/man/*.1; do stage_beside "$page" "$data/man/man1/${page##*/}"; done
  completions=$work/release/completions
  stage_beside "$completions/tandem.bash" "$data/bash-completion/completions/tandem"
  stage_beside "$completions/_tandem" "$data/zsh/site-functions/_tandem"
  stage_beside "$completions/tandem.fish" "$data/fish/vendor_completions.d/tandem.fish"
}

# Stages what the program can do without: a file of the user stays in its place.
stage_beside() {
  if { [ -e "$2" ] || [ -L "$2" ]; } && ! is_installed "$2"; then
    say "Left as it is, because this script has not installed it: $2"
  else
    stage "$1" "$2" 644
  fi
}

stage() {
  make_directory "$(dirname "$2")"
  printf '%s  %s\n' "$(checksum "$1")" "$2" >>"$work/files"
  { cp "$1" "$2.new-$$" && chmod "$3" "$2.new-$$"; } ||
    die "$(dirname "$2") cannot be written. $UNCHANGED"
}

make_directory() {
  if [ -d "$1" ]; then return; fi
  make_directory "$(dirname "$1")"
  mkdir "$1" || die "The directory $1 cannot be made. $UNCHANGED"
  printf '%s\n' "$1" >>"$work/directories"
}

# Renames what is staged, and removes what only an earlier version had. The list has the old and the new files
# meanwhile, so that wherever this ends, --uninstall finds all of them.
finish() {
  make_directory "$data/tandem"
  : >"$work/earlier"
  if [ -f "$record" ]; then cat "$record" >"$work/earlier"; fi
  sed 's/^/directory  /' "$work/directories" >"$work/made"
  write_record "$work/earlier" "$work/files" "$work/made"
  : >"$work/directories"

  while read -r _ path; do mv -f "$path.new-$$" "$path"; done <"$work/files"
  while read -r kind path; do
    if [ "$kind" = directory ]; then
      printf 'directory  %s\n' "$path" >>"$work/made"
    elif ! cut -d ' ' -f 3- "$work/files" | grep -Fqx "$path" && is_installed "$path"; then
      rm "$path"
      say "Removed $path, which an earlier installation had"
    fi
  done <"$work/earlier"
  write_record "$work/files" "$work/made"
}

write_record() {
  sort -u "$@" >"$record.new-$$" || die "$record cannot be written. Is the disk full?"
  mv "$record.new-$$" "$record"
}

report() {
  say "Installed $version: $to/tandem"
  say "Manual pages and completions for bash, zsh and fish are below $data"
  case ${SHELL:-} in
    *zsh) say "zsh finds its completions with this line in ~/.zshrc, before compinit: fpath=($data/zsh/site-functions \$fpath)" ;;
  esac
  case :$PATH: in
    *:"$to":*)
      found=$(command -v tandem || true)
      if [ "$found" != "$to/tandem" ]; then say "But \`tandem\` starts $found, which comes first on your PATH."; fi
      ;;
    *) say "$to is not on your PATH. Add this line to ~/.profile, then log in again: export PATH=\"$to:\$PATH\"" ;;
  esac
  say "To remove it all, run this script with --uninstall."
}

uninstall() {
  if [ ! -f "$record" ]; then
    die "This script has installed nothing here: $record is missing. What cargo has installed is removed by: cargo uninstall tandem"
  fi
  while read -r kind path; do
    if [ "$kind" = directory ]; then
      printf '%s\n' "$path" >>"$work/made"
    elif is_installed "$path"; then
      rm "$path"
      say "Removed $path"
    elif [ -e "$path" ]; then
      say "Left as it is, because it has changed since it was installed: $path"
    fi
  done <"$record"
  rm "$record"
  if [ -f "$work/made" ]; then remove_empty "$work/made"; fi
  say "Settings and sessions stay: ~/.config/tandem, $data/tandem and ~/.local/state/tandem."
}

# Removes the listed directories that are empty, inner ones first.
remove_empty() {
  sort -r "$1" | while read -r directory; do rmdir "$directory" 2>/dev/null || true; done
}

# Nothing happens before this line, so that half a download of this script does nothing.
main "$@"
