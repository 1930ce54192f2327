# Names that not every file system of a contributor can hold in a checkout.
sh -eu "$(dirname "$0")/check/make.sh"
git add --all
git commit --quiet --message "Notes"
