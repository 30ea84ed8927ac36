package command

import "os"

// caseless says whether names of variables ignore case.
const caseless = true

func awaitEnd(int) bool { return false }

func endedBy(*os.ProcessState) (signal string, core bool) { return "", false }
