only_changed 'shop/*' 'tests/*'
must "the shop does not compute what it should" python3 "$CHECK/hidden.py"
must "the tests of the project fail" python3 -m unittest
