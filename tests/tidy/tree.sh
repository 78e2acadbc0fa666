# The project keeps the rules of tests/tidy/check.bash.
set -eu
exec bash "${LAKE_SOURCE_DIR:?run this by ctest}/tests/tidy/check.bash" "$LAKE_SOURCE_DIR"
