package config

import (
	"crypto/sha256"
	"fmt"
	"slices"
	"strings"
)

// published are secrets and tokens that stand, or stood, in the documents of this project,
// of Standard Webhooks and of GitHub: everybody knows them. A secret of Standard Webhooks
// stands without its prefix.
var published = []string{
	"MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
	"It's a Secret to Everybody",
	"example-token-of-an-admin", "example-token-of-the-shop", "example-token-of-a-viewer",
	"6a1f0c52e1d94fb0",
}

// errPublished names what to do about a secret that everybody knows.
func errPublished(key string) error {
	return fmt.Errorf("%s: is an example of the documents, which everybody knows: make one of your own, such as openssl rand -base64 32 or, for a token, openssl rand -hex 32 prints", key)
}

func isPublished(secret string) bool {
	return slices.Contains(published, strings.TrimPrefix(strings.TrimSpace(secret), "whsec_"))
}

// isPublishedSum reports whether a token with that hash is published.
func isPublishedSum(sum [sha256.Size]byte) bool {
	return sum == sha256.Sum256([]byte("test")) || slices.ContainsFunc(published, func(s string) bool { return sha256.Sum256([]byte(s)) == sum })
}
