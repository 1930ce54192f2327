[ "$(git rev-list --count "$BASE_COMMIT"..HEAD)" = 1 ] || fail "there is not just one new commit"
[ "$(git diff --name-only "$BASE_COMMIT" HEAD)" = guide.md ] || fail "the commit changes: $(git diff --name-only "$BASE_COMMIT" HEAD | tr '\n' ' ')"
git diff "$BASE_COMMIT" HEAD | grep '^[-+][^-+]' >"$SCRATCH/lines"
printf '%s\n' '-You will recieve the best tea after four minutes.' '+You will receive the best tea after four minutes.' |
  cmp -s - "$SCRATCH/lines" || fail "the commit changes more than the word, or not the word"
git log -1 --format=%s | LC_ALL=C grep -qE '^guide: [a-z][^.]*$' || fail "the subject is not in the project's style: $(git log -1 --format=%s)"
git log -1 --format=%b | grep -q '^Tested-by: ' || fail "the commit has no line Tested-by, as all others have"
[ "$(git log -1 --format='%an <%ae>')" = 'Robin Doe <robin@example.org>' ] || fail "the author is another"
[ "$(git status --porcelain | LC_ALL=C sort | tr '\n' '|')" = ' M tea.sh|?? plan.txt|' ] || fail "what was not committed before is otherwise now"
