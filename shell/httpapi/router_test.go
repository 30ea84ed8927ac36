package httpapi_test

import "testing"

// Whoever plays the stories does not see that there are three partitions.
func TestStoriesOverThreePartitions(t *testing.T) { playStories(t, false, 3) }

func TestStoriesWhoseRequestsAreSentTwiceOverThreePartitions(t *testing.T) { playStories(t, true, 3) }

// Rights are the same over three partitions.
func TestEveryOperationOverThreePartitionsAnswersEachKindOfTokenAsTheTableSays(t *testing.T) {
	sweepAll(t, 3, map[string]bool{ // what is answered with 501, or with what to do instead
		"listAudit": true, "backup": true, "publishEvent": true,
		"listSubscribers": true, "deleteSubscriber": true, "getSubscriber": true, "putSubscriber": true,
	})
}
