only_changed invoice.py test_invoice.py
if git rev-parse --quiet --verify MERGE_HEAD >/dev/null; then
  fail "the merge is not finished"
fi
[ -z "$(git status --porcelain)" ] || fail "something is not committed"
[ "$(git rev-list --parents --max-count=1 HEAD | wc -w)" = 3 ] || fail "HEAD is no merge"
git merge-base --is-ancestor currency HEAD || fail "the branch is not merged"
git merge-base --is-ancestor "$BASE_COMMIT" HEAD || fail "main has lost commits"
if grep -nE '^(<<<<<<<|=======|>>>>>>>)' invoice.py test_invoice.py; then
  fail "a conflict is left"
fi
must "a side is lost" python3 "$CHECK/hidden.py"
must "the tests of the project fail" python3 -m unittest
