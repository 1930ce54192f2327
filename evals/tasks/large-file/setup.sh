python3 - <<'EOF' >catalog.py
print("# Articles in the order of their creation. A later entry of a number replaces an earlier one.\nARTICLES = [")
for n in range(8000):
    cents = 1199 if n == 4711 else 100 + n * 37 % 9000
    print(f'    {{"number": "A-{n}", "name": "Part {n}", "cents": {cents}}},')
    if n == 4738:
        print('    {"number": "A-4711", "name": "Lamp, revised", "cents": 1199},')
        print('    {"number": "A-47110", "name": "Lamp, small", "cents": 475},')
print("]")
EOF
git add --all
git commit --quiet --message "Catalog"
