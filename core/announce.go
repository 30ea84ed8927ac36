package core

import "encoding/json"

// announcementTexts makes the data of an announcement of texts, given as name and value by turns.
func announcementTexts(pairs ...string) json.RawMessage {
	o := begin(nil)
	for i := 0; i+1 < len(pairs); i += 2 {
		o.str(pairs[i], pairs[i+1])
	}
	return o.end()
}

// announcementData encodes the data of an announcement: strings, numbers and times
// always do.
func announcementData(v any) json.RawMessage {
	b, err := json.Marshal(v)
	if err != nil {
		return nil
	}
	return b
}
