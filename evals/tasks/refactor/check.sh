only_changed readers.py test_readers.py
mkdir "$SCRATCH/before"
git show "$BASE_COMMIT:readers.py" >"$SCRATCH/before/before.py"
must "a reader returns something else" python3 "$CHECK/hidden.py" "$SCRATCH/before"
must "the tests of the project fail" python3 -m unittest
