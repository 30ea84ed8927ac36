package command

import (
	"os"
	"os/exec"
)

// caseless says whether names of variables ignore case.
const caseless = true

func setAttributes(*exec.Cmd) {}

func awaitEnd(int) bool { return false }

// Windows knows neither process groups of this kind nor a polite signal that
// every program understands: only the program itself is ended.
func killGroup(p *os.Process)      { _ = p.Kill() }
func terminateGroup(p *os.Process) { _ = p.Kill() }

func endedBy(*os.ProcessState) (signal string, core bool) { return "", false }
