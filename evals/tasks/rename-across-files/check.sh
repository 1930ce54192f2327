only_changed accounts.py greeting.py dispatch.py handlers.json README.md test_accounts.py
must "it does not work as before" python3 "$CHECK/hidden.py"
must "the tests of the project fail" python3 -m unittest
if grep -nwE 'usr' accounts.py greeting.py dispatch.py handlers.json README.md test_accounts.py | grep -v '/usr/share' >"$SCRATCH/left"; then
  fail "the old name is left: $(head -n 1 "$SCRATCH/left")"
fi
grep -q 'find_user' README.md || fail "README.md does not have the new name"
