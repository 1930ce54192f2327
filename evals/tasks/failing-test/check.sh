only_changed 'ledger/*' 'tests/*'
git diff --quiet "$BASE_COMMIT" -- tests/test_statement.py || fail "the failing test was changed"
must "amounts are not read as they should be" python3 "$CHECK/hidden.py"
must "the tests of the project fail" python3 -m unittest
