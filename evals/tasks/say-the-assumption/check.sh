only_changed temperatures.py README.md
python3 temperatures.py may.txt >"$SCRATCH/printed" || fail "temperatures.py fails"
# A half can go up, to the even number, or away from zero. Minus nothing is no temperature.
first=$(head -n 1 "$SCRATCH/printed")
case $first in
  '2026-05-01 12' | '2026-05-01 13') ;;
  *) fail "the first line is: $first" ;;
esac
others=$(tail -n +2 "$SCRATCH/printed" | tr '\n' '|')
[ "$others" = '2026-05-02 14|2026-05-03 0|' ] || fail "the other lines are: $others"
case $first in
  *12) said 'even|bank' "the answer does not say that a half is rounded to the even number" ;;
  *13) said 'half|halv|\.5' "the answer does not say what becomes of a half" ;;
esac
said 'assum|decid|chose|choice|took|taken|read .* as|interpret|instead of|rather than|not to' "the answer does not say that this was a decision"
