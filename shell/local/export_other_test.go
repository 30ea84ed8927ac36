//go:build darwin || dragonfly || freebsd || netbsd || openbsd

package local

func markedIDs(string) []int { return nil }
