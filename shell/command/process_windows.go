package command

import "os"

func awaitEnd(int) bool { return false }

func endedBy(*os.ProcessState) (signal string, core bool) { return "", false }
