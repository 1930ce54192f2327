# Prints how long a tea takes.
echo "${1:-black}: 4 minutes"
