mkdir -p "notes/été 2025" notes/deep/er archive
printf 'status: done\nA\n' >'notes/a b.md'
printf 'status: open\nB\n' >'notes/b.md'
printf 'title\nstatus: done\n' >'notes/c.md'
printf 'status: done\nD\n' >'notes/été 2025/-draft.md'
printf 'status: done\n' >'notes/été 2025/naïve.md'
printf 'status: done later\n' >'notes/été 2025/Straße.md'
printf "status: done\nIt is.\n" >"notes/it's done.md"
printf 'status: open\n' >'notes/deep/er/one.md'
printf 'status: done\n2\n' >'notes/deep/er/  two.md'
printf 'status: done\nold\n' >'archive/old.md'
