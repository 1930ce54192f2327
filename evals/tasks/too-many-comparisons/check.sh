only_changed unique.py test_unique.py
must "unique.py compares too often, or returns something else" python3 "$CHECK/hidden.py"
must "the tests of the project fail" python3 -m unittest
