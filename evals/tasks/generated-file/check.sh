only_changed api.json client.py test_client.py
must "client.py does not do what it should" python3 "$CHECK/hidden.py"
must "the tests of the project fail" python3 -m unittest
cp client.py "$SCRATCH/client.py"
cp -R . "$SCRATCH/copy"
cd "$SCRATCH/copy"
must "generate.py fails" python3 generate.py
cmp -s client.py "$SCRATCH/client.py" || fail "generate.py writes another client.py: the next run would undo the change"
