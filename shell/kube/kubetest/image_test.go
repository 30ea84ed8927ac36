package kubetest_test

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/orrery-go/orrery/shell/kube/kubetest"
)

const repository = "../../.."

// image is what the Containerfile makes, as an archive: made once, in the folder of
// [built].
var image struct {
	once    sync.Once
	archive string
	err     error
}

// imported gives the cluster the image of the Containerfile, under the name that the
// Deployment has.
func imported(t *testing.T, c *kubetest.Cluster) {
	t.Helper()
	folder := filepath.Dir(orreryd(t))
	image.once.Do(func() { image.archive, image.err = makeImage(filepath.Join(folder, "image")) })
	require.NoError(t, image.err)
	require.NoError(t, c.Import(t.Context(), image.archive))
}

// imageConfig is that of an image, see the image specification of the OCI.
type imageConfig struct {
	User         string
	ExposedPorts map[string]struct{}
	Entrypoint   []string
	Cmd          []string
	WorkingDir   string
}

// containerfile carries out the steps of a Containerfile of two stages: one that
// compiles on this machine, with the repository as its folder, and one from nothing.
type containerfile struct {
	root   string // what stands for the first stage's /
	last   bool   // it is the second stage
	config imageConfig
	layer  bytes.Buffer
	files  *tar.Writer
}

// makeImage makes the image into a folder.
func makeImage(root string) (archive string, err error) {
	text, err := os.ReadFile(examples + "Containerfile")
	if err != nil {
		return "", err
	}
	if err := os.MkdirAll(filepath.Join(root, "out"), 0o700); err != nil {
		return "", err
	}
	f := &containerfile{root: root, config: imageConfig{WorkingDir: "/", ExposedPorts: map[string]struct{}{}}}
	f.files = tar.NewWriter(&f.layer)
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		instruction, rest, _ := strings.Cut(line, " ")
		if err := f.step(instruction, rest); err != nil {
			return "", fmt.Errorf("%s: %w", line, err)
		}
	}
	if err := f.files.Close(); err != nil {
		return "", err
	}
	return f.write(filepath.Join(root, "image.tar"))
}

// step carries out an instruction. One that is new in the file must be told here.
func (f *containerfile) step(instruction, rest string) error {
	switch {
	case instruction == "FROM":
		f.last = rest == "scratch"
		return nil
	case !f.last:
		return f.buildStep(instruction, rest)
	}
	switch instruction {
	case "COPY":
		from, to, ok := strings.Cut(strings.TrimPrefix(rest, "--from=build "), " ")
		if !ok || !strings.HasPrefix(rest, "--from=build ") {
			return fmt.Errorf("it does not copy one file from the stage build")
		}
		return f.add(from, to)
	case "USER":
		f.config.User = rest
	case "EXPOSE":
		f.config.ExposedPorts[rest+"/tcp"] = struct{}{}
	case "ENTRYPOINT":
		return json.Unmarshal([]byte(rest), &f.config.Entrypoint)
	case "CMD":
		return json.Unmarshal([]byte(rest), &f.config.Cmd)
	default:
		return fmt.Errorf("this test does not know it")
	}
	return nil
}

// buildStep is one of the stage that compiles. The repository is there without being
// copied.
func (f *containerfile) buildStep(instruction, rest string) error {
	if instruction != "RUN" {
		return nil
	}
	run := exec.Command("sh", "-c", strings.ReplaceAll(rest, " /out/", " "+f.root+"/out/"))
	run.Dir = repository
	if out, err := run.CombinedOutput(); err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	return nil
}

// add puts a file of the first stage into the image: of /out what was compiled, else the file
// of this machine at that place, or an empty one if there is none.
func (f *containerfile) add(from, to string) error {
	source := from
	if strings.HasPrefix(from, "/out/") {
		source = f.root + from
	}
	body, err := os.ReadFile(source)
	if err != nil && (!os.IsNotExist(err) || source != from) {
		return err
	}
	for i := 1; i < len(to); i++ {
		if to[i] != '/' {
			continue
		}
		if err := f.files.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: to[1 : i+1], Mode: 0o755}); err != nil {
			return err
		}
	}
	mode := int64(0o644)
	if strings.HasPrefix(from, "/out/") {
		mode = 0o755
	}
	if err := f.files.WriteHeader(&tar.Header{Name: path.Clean(to)[1:], Mode: mode, Size: int64(len(body))}); err != nil {
		return err
	}
	_, err = f.files.Write(body)
	return err
}

// write writes the archive as docker save does.
func (f *containerfile) write(archive string) (string, error) {
	config, err := json.Marshal(map[string]any{
		"architecture": runtime.GOARCH, "os": "linux", "config": f.config,
		"rootfs":  map[string]any{"type": "layers", "diff_ids": []string{fmt.Sprintf("sha256:%x", sha256.Sum256(f.layer.Bytes()))}},
		"history": []any{map[string]any{"created": "1970-01-01T00:00:00Z"}},
	})
	if err != nil {
		return "", err
	}
	manifest, err := json.Marshal([]any{map[string]any{"Config": "config.json", "RepoTags": []string{"docker.io/library/orrery:latest"}, "Layers": []string{"layer.tar"}}})
	if err != nil {
		return "", err
	}
	out, err := os.Create(archive)
	if err != nil {
		return "", err
	}
	files := tar.NewWriter(out)
	for _, file := range []struct {
		name string
		body []byte
	}{{"manifest.json", manifest}, {"config.json", config}, {"layer.tar", f.layer.Bytes()}} {
		if err := files.WriteHeader(&tar.Header{Name: file.name, Mode: 0o644, Size: int64(len(file.body))}); err != nil {
			return "", err
		}
		if _, err := files.Write(file.body); err != nil {
			return "", err
		}
	}
	if err := files.Close(); err != nil {
		return "", err
	}
	return archive, out.Close()
}
