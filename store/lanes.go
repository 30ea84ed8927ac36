package store

import "strings"

// laneSeparator stands between a lane and a share of it. No lane has it in its name.
const laneSeparator = "\x1f"

// ShareLane names the queue in which what one share of a lane asks for waits: that of
// a tenant, say. The empty share has the lane's own name, which is also where each
// entry stands that was made before lanes had shares.
func ShareLane(lane, share string) string {
	if share == "" {
		return lane
	}
	return lane + laneSeparator + share
}

// SplitLane gives the lane and the share of a name that [ShareLane] has made.
func SplitLane(name string) (lane, share string) {
	lane, share, _ = strings.Cut(name, laneSeparator)
	return lane, share
}
