# seal: ends the stream for good, twice is fine, and a feeder is told.
. "$(dirname "$0")/lake.inc"

echo "some text to feed" >t.txt
ok lake init file:ns --text-seq-len 8
ok lake feed text file:ns t.txt --id a --limit-tgbs 1
ok lake seal file:ns --json
is "$(json 'j["sealed"], j["step_count"], j["url"]')" "(True, '1', 'file:$PWD/ns')" sealed
ok lake seal file:ns
grep -q "^sealed file:$PWD/ns at 1 step$" out.log || die text
ok lake ls file:ns --json
is "$(json 'j["sealed"], j["next_step"]')" "(True, '1')" ls
find ns -type f | sort >before
fails 4 "sealed" lake feed text file:ns t.txt --id a
fails_json 4 END conflict lake feed text file:ns t.txt --id b --json
ok lake ls file:ns --json
is "$(json 'j["next_step"], j["producer_count"]')" "('1', 1)" "nothing was added"
ok lake verify file:ns
ok lake init file:empty
ok lake seal file:empty --json
is "$(json 'j["step_count"]')" 0 "an empty stream can be sealed"
fails 3 "no namespace at" lake seal file:nowhere
fails 2 "URL" lake seal
