package page

import "net/http"

func actsOnRuns() []act {
	const on = "/runs/{id}"
	return []act{
		{
			on: on, name: "cancel", method: http.MethodPost, api: "/v1/runs/{id}/cancel", label: "Cancel", danger: true, done: "The run is being cancelled.", fields: []field{reasonField},
			says: "A run that waits does not begin. A pod that runs is stopped and deleted; the run is cancelled once that is done.",
		},
		{
			on: on, name: "abandon", method: http.MethodPost, api: "/v1/runs/{id}/abandon", label: "Give up the cleanup", danger: true, done: "The cleanup was given up.", fields: []field{reasonField},
			says: "Its pod, which could not be deleted so far, is not deleted any more, and may still run: delete it yourself.",
		},
		{
			on: on, name: "retry", method: http.MethodPost, api: "/v1/runs/{id}/retry", label: "Try again now", main: true, done: "The next attempt has begun.",
			says: "The next attempt begins now, instead of at its time.",
		},
	}
}
