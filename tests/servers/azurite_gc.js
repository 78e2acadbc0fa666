/* Loaded before Azurite (node -r): puts off its sweep of unused extents, by default every ten minutes, for as long as a timer
 * can. With some ten thousand objects in memory that sweep holds all requests up for more than a minute. */
const path = require("path");
require(path.join(path.dirname(process.argv[1]), "utils", "constants.js")).DEFAULT_GC_INTERVAL_MS = 2 ** 31 - 1;
