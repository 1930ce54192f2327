# Both sides change the same lines, and main is in the middle of the merge.
sides=$(dirname "$0")/sides
git add --all
git commit --quiet --message "Invoices"
git checkout --quiet -b currency
cp "$sides"/currency/* .
git commit --quiet --all --message "Name the currency"
git checkout --quiet main
cp "$sides"/main/* .
git commit --quiet --all --message "Grant a discount"
if git merge currency >/dev/null; then
  exit 1
fi
