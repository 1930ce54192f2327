only_changed 'test_slots.py'
[ -f test_slots.py ] || fail "there is no test_slots.py"
must "the tests fail with the code as it is" python3 -m unittest test_slots
for mutant in "$CHECK"/mutant_*.py; do
  cp "$mutant" "$SCRATCH/slots.py"
  cp test_slots.py "$SCRATCH/test_slots.py"
  (cd "$SCRATCH" && must_not "no test finds the mistake of $(basename "$mutant")" python3 -m unittest test_slots) || exit 10
done
