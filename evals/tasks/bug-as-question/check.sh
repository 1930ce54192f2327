only_changed report.py sales.py test_report.py
must "the report is wrong" python3 "$CHECK/hidden.py"
must "the tests of the project fail" python3 -m unittest
said 'digit|zero|padd|03|NAMES|sales\.py' "the answer does not say why"
