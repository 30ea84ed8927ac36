package schedule

import (
	_ "embed" // the time zone database
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/orrery-go/orrery/effects"
	"github.com/orrery-go/orrery/effects/texts"
)

//go:generate cp $GOROOT/lib/time/zoneinfo.zip zoneinfo.zip

// TZVersion is the release of the IANA time zone database that is embedded in
// this package. The host's database is never read: a replay on another machine
// finds the same rules (G11).
const TZVersion = "2025c"

// archive is the zip file that Go ships, entries stored without compression.
// After a refresh with go generate the tests say which constants to change.
//
//go:embed zoneinfo.zip
var archive string

// index lists the archive's zones by name, in order. It never changes.
var index = indexArchive(archive)

// indexEntry says where a zone's TZif data lies in the archive.
type indexEntry struct {
	name       string
	start, end int
}

// A Zone is an IANA time zone from the embedded database, with its rules
// worked out from 1970 to 2100. It is immutable and safe for concurrent use.
type Zone struct {
	name string
	segs []segment
}

// A segment is a stretch of time in which the zone's offset does not change.
type segment struct {
	start int64 // its first second since 1970 UTC
	off   int64 // wall clock minus UTC, in seconds
	// high is the exclusive upper bound of all wall clock readings that were
	// shown before the segment began. It never falls from one segment to the
	// next, also where the wall clock was set back.
	high int64
}

// utc needs no data.
//
// read-only: a Zone is immutable, no method writes to it.
var utc = &Zone{name: "UTC", segs: []segment{{start: beginning, high: beginning}}}

// LoadZone finds an IANA time zone, such as "Europe/Berlin" or "UTC", in the
// embedded database. Names are case-sensitive. The empty name and "Local",
// which mean something else on every machine, are refused, as is everything
// that the database does not have; the [Error] suggests what may be meant.
func LoadZone(name string) (*Zone, error) {
	switch {
	case name == "":
		return nil, zoneError(`the name is empty: name an IANA time zone such as "UTC" or "Europe/Berlin"`)
	case strings.EqualFold(name, "UTC"):
		if name != "UTC" {
			return nil, zoneError(`%s is not an IANA time zone: write "UTC"`, quote(name))
		}
		return utc, nil
	case strings.EqualFold(name, "Local"):
		return nil, zoneError(`%s depends on the machine: name an IANA time zone such as "UTC" or "Europe/Berlin"`, quote(name))
	}
	data, found := zoneData(name)
	if !found {
		return nil, zoneError("%s is not an IANA time zone%s", quote(name), suggestZone(name))
	}
	segs, err := parseTZif(data)
	if err != nil {
		return nil, zoneError("%s cannot be read from the embedded database: %v", quote(name), err)
	}
	return &Zone{name: name, segs: segs}, nil
}

// zoneData finds a zone's TZif data in the archive.
func zoneData(name string) (data string, found bool) {
	i, found := slices.BinarySearchFunc(index, name, func(e indexEntry, name string) int { return strings.Compare(e.name, name) })
	if found {
		data = archive[index[i].start:index[i].end]
	}
	return data, found
}

// ZoneNames lists all names that [LoadZone] accepts, in order.
func ZoneNames() []string {
	names := make([]string, len(index))
	for i, e := range index {
		names[i] = e.name
	}
	return names
}

// Name gives the zone's IANA name.
func (z *Zone) Name() string { return z.name }

// Offset gives how far the zone's wall clock is ahead of UTC at t.
func (z *Zone) Offset(t effects.Time) time.Duration {
	s := &z.segs[z.segmentAt(floorSeconds(t))]
	return time.Duration(s.off) * time.Second
}

// OffsetUntil gives when the offset ends that [Zone.Offset] gives for t; ok is false if it does not.
func (z *Zone) OffsetUntil(t effects.Time) (end effects.Time, ok bool) {
	i := z.segmentAt(floorSeconds(t)) + 1
	if i == len(z.segs) {
		return 0, false
	}
	return effects.Time(z.segs[i].start * 1000), true
}

// Location gives the zone in the standard library's form, for showing local
// times. It is built anew at each call, from the same embedded data.
func (z *Zone) Location() *time.Location {
	if z == utc {
		return time.UTC
	}
	data, _ := zoneData(z.name)
	loc, err := time.LoadLocationFromTZData(z.name, []byte(data))
	if err != nil { // LoadZone has read the same bytes
		return time.UTC
	}
	return loc
}

// segmentAt finds the segment that the second t lies in.
func (z *Zone) segmentAt(t int64) int {
	lo, hi := 0, len(z.segs)
	for hi-lo > 1 {
		if mid := (lo + hi) / 2; z.segs[mid].start <= t {
			lo = mid
		} else {
			hi = mid
		}
	}
	return lo
}

// reached is the highest wall clock reading that was shown up to and including
// the second t, which lies in segment i.
func (z *Zone) reached(i int, t int64) int64 {
	return max(t+z.segs[i].off, z.segs[i].high-1)
}

// firstShown gives the first second at which the wall clock shows the reading
// w or a later one: w itself where it exists (the first time, where it exists
// twice), or the end of the gap that w falls into (R4).
func (z *Zone) firstShown(w int64) int64 {
	// The first segment whose end the wall clock reaches after showing w.
	lo, hi := 0, len(z.segs)-1
	for lo < hi {
		if mid := (lo + hi) / 2; z.segs[mid+1].high > w {
			hi = mid
		} else {
			lo = mid + 1
		}
	}
	return max(z.segs[lo].start, w-z.segs[lo].off)
}

// indexArchive reads the zip file's central directory. Go's own reader does
// the same; archive/zip would bring compression and the file system with it.
func indexArchive(zip string) []indexEntry {
	const endLen, dirLen, localLen = 22, 46, 30
	if len(zip) < endLen {
		return nil
	}
	end := zip[len(zip)-endLen:]
	if end[:4] != "PK\x05\x06" {
		return nil
	}
	n, at := int(le16(end[10:])), int(le32(end[16:]))
	entries := make([]indexEntry, 0, n)
	for range n {
		if at+dirLen > len(zip) || zip[at:at+4] != "PK\x01\x02" {
			return nil
		}
		dir := zip[at:]
		size, nameLen, local := int(le32(dir[24:])), int(le16(dir[28:])), int(le32(dir[42:]))
		name := dir[dirLen : dirLen+nameLen]
		at += dirLen + nameLen + int(le16(dir[30:])) + int(le16(dir[32:]))
		if stored := le16(dir[10:]) == 0; !stored || strings.HasSuffix(name, "/") || name == "Factory" {
			continue // "Factory" is the placeholder of a machine with no zone set
		}
		start := local + localLen + int(le16(zip[local+26:])) + int(le16(zip[local+28:]))
		entries = append(entries, indexEntry{name: name, start: start, end: start + size})
	}
	slices.SortFunc(entries, func(a, b indexEntry) int { return strings.Compare(a.name, b.name) })
	return entries
}

func le16(s string) uint16 { return uint16(s[0]) | uint16(s[1])<<8 }
func le32(s string) uint32 { return uint32(le16(s)) | uint32(le16(s[2:]))<<16 }

// suggestZone completes an error about an unknown name with what may be meant.
func suggestZone(name string) string {
	if len(name) > 64 {
		return `: write a name such as "Europe/Berlin"`
	}
	if region, ok := abbreviations[strings.ToUpper(name)]; ok {
		return fmt.Sprintf(": abbreviations are ambiguous, write a region such as %q", region)
	}
	if strings.ContainsAny(name, "+-0123456789") && !strings.Contains(name, "/") {
		return `: write a region such as "Europe/Paris", or a fixed offset as "Etc/GMT-2" (which is two hours ahead of UTC)`
	}
	plain := strings.ReplaceAll(name, " ", "_")
	best, bestDistance := "", 3 // three typing errors are another name
	for _, e := range index {
		if strings.EqualFold(e.name, plain) {
			return fmt.Sprintf(": write %q", e.name)
		}
		city := e.name[strings.LastIndex(e.name, "/")+1:]
		d := min(distance(e.name, plain, bestDistance), distance(city, plain, bestDistance))
		if d < bestDistance {
			best, bestDistance = e.name, d
		}
	}
	if best != "" {
		return fmt.Sprintf(": did you mean %q?", best)
	}
	return `: write a name such as "Europe/Berlin" or "UTC"`
}

// abbreviations give a region for well-known abbreviations of time zones that are no
// names in the database.
//
// read-only: a table
var abbreviations = map[string]string{
	"PST": "America/Los_Angeles", "PDT": "America/Los_Angeles", "PT": "America/Los_Angeles",
	"EDT": "America/New_York", "ET": "America/New_York",
	"CST": "America/Chicago", "CDT": "America/Chicago", "CT": "America/Chicago",
	"MDT": "America/Denver", "MT": "America/Denver",
	"CEST": "Europe/Berlin",
	"BST":  "Europe/London",
	"EEST": "Europe/Helsinki",
	"IST":  "Asia/Kolkata",
	"JST":  "Asia/Tokyo",
	"AEST": "Australia/Sydney", "AEDT": "Australia/Sydney",
}

// distance counts the single-letter edits between a and b, regardless of case;
// a result of limit or more is not exact.
func distance(a, b string, limit int) int {
	if len(a)-len(b) >= limit || len(b)-len(a) >= limit {
		return limit
	}
	return texts.Distance(strings.ToLower(a), strings.ToLower(b))
}

// quote shows a bad value in an error, short and in ASCII.
func quote(s string) string {
	if len(s) > 64 {
		return strconv.QuoteToASCII(s[:64]) + "..."
	}
	return strconv.QuoteToASCII(s)
}
