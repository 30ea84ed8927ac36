package command

import (
	"fmt"
	"sort"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/orrery-go/orrery/shell/internal/headtail"
	"github.com/orrery-go/orrery/shell/internal/plainjson"
)

// capture keeps the first and the last bytes of a stream.
type capture struct{ headtail.Buffer }

func newCapture(limit int) *capture { return &capture{*headtail.New(limit)} }

// text gives what was kept, and how many bytes of the stream are not in it. A
// gap is marked where it is. A character that the gap cuts in two is dropped
// whole.
func (c *capture) text() (string, int64) {
	head, tail := c.From(0)
	dropped := c.Total() - int64(len(head)+len(tail))
	if dropped == 0 {
		return plainjson.Text(string(head) + string(tail)), 0
	}
	head, tail = trimEnd(head), trimStart(tail)
	dropped = c.Total() - int64(len(head)+len(tail))
	if len(head)+len(tail) == 0 {
		return "", dropped
	}
	return fmt.Sprintf("%s\n[… %d bytes dropped …]\n%s", plainjson.Text(string(head)), dropped, plainjson.Text(string(tail))), dropped
}

// jsonLen is how long a text is as JSON.
func jsonLen(s string) int {
	b, _ := plainjson.Marshal(s) // a string always encodes
	return len(b)
}

// shorten takes out the middle of a text, so that it is at most room bytes long
// as JSON, and says how many bytes it took.
func shorten(s string, room int) (string, int) {
	if jsonLen(s) <= room {
		return s, 0
	}
	const mark = 64
	room = room/2 - mark
	head := sort.Search(len(s), func(n int) bool { return jsonLen(s[:n+1]) > room })
	tail := sort.Search(len(s), func(n int) bool { return jsonLen(s[len(s)-n-1:]) > room })
	begin, end := string(trimEnd([]byte(s[:head]))), string(trimStart([]byte(s[len(s)-tail:])))
	dropped := len(s) - len(begin) - len(end)
	return fmt.Sprintf("%s\n[… %d bytes dropped …]\n%s", begin, dropped, end), dropped
}

// trimEnd drops a character that begins but does not end in b.
func trimEnd(b []byte) []byte {
	for i := 1; i <= min(utf8.UTFMax-1, len(b)); i++ {
		if c := b[len(b)-i]; utf8.RuneStart(c) {
			if c >= utf8.RuneSelf && !utf8.FullRune(b[len(b)-i:]) {
				return b[:len(b)-i]
			}
			break
		}
	}
	return b
}

// trimStart drops what is left of a character that began before b.
func trimStart(b []byte) []byte {
	for i := range min(utf8.UTFMax, len(b)) {
		if utf8.RuneStart(b[i]) {
			return b[i:]
		}
	}
	return b
}

// tailOf gives the last lines of a text, without space around them: as many as
// are allowed and fit into n bytes when they are quoted. Of a last line that
// does not fit, it gives the end.
func tailOf(text string, lines, n int) string {
	fits := func(s string) bool { return len(s) <= n && len(strconv.Quote(s))-len(`""`) <= n }
	text = strings.TrimSpace(text)
	tail := ""
	for from, line := len(text), 0; from >= 0 && line < lines; line++ {
		from = strings.LastIndexByte(text[:from], '\n')
		if !fits(text[from+1:]) {
			break
		}
		tail = text[from+1:]
	}
	if tail != "" || text == "" {
		return tail
	}
	const cut = "…"
	tail = string(trimStart([]byte(text[max(0, len(text)-n):])))
	for !fits(cut + tail) {
		_, size := utf8.DecodeRuneInString(tail)
		tail = tail[size:]
	}
	return cut + tail
}
