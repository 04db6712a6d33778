// Command image writes the image of Carillon, for one architecture or for several, as the directory of an OCI archive
// that `docker load` reads, too. It has the static binary and two writable directories, so nothing is fetched.
//
//	image DIRECTORY NAME ARCHITECTURE=BINARY…
//
// SOURCE_DATE_EPOCH is the time of all that is in it: the same binaries give the same bytes.
package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

const user = 65532

// config is Carillon alone: the event store and Postgres are elsewhere, see deploy/compose.yaml.
var config = v1.Config{
	User:         fmt.Sprintf("%d:%d", user, user),
	Env:          []string{"CARILLON_DATA_DIR=/data", "CARILLON_HTTP_ADDR=0.0.0.0:8443"},
	ExposedPorts: map[string]struct{}{"8443/tcp": {}},
	// The data directory holds the master key and the admin token if they are not set by variables.
	Volumes: map[string]struct{}{"/data": {}},
	// Fails if the event store or Postgres can't be reached, or a projection has stopped.
	Healthcheck: &v1.HealthConfig{
		Test:        []string{"CMD", "/carillon", "status", "--json"},
		Interval:    10 * time.Second,
		Timeout:     5 * time.Second,
		StartPeriod: time.Minute,
	},
	Entrypoint: []string{"/carillon"},
	Cmd:        []string{"serve"},
}

func main() {
	log.SetFlags(0)
	seconds, err := strconv.ParseInt(os.Getenv("SOURCE_DATE_EPOCH"), 10, 64)
	if err != nil || len(os.Args) < 4 {
		log.Fatal("SOURCE_DATE_EPOCH=SECONDS image DIRECTORY NAME ARCHITECTURE=BINARY…")
	}
	if err := write(os.Args[1], os.Args[2], time.Unix(seconds, 0).UTC(), os.Args[3:]); err != nil {
		log.Fatal(err)
	}
}

// write writes the images under one name, each of an architecture. For docker load, the name of each of several ends
// with its architecture.
func write(directory, called string, at time.Time, binaries []string) error {
	tag, err := name.NewTag(called)
	if err != nil {
		return err
	}
	fullName := strings.TrimPrefix(tag.Name(), "index.") // the library's word for docker.io
	images := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	var docker tarball.Manifest
	for _, binary := range binaries {
		architecture, path, _ := strings.Cut(binary, "=")
		image, err := newImage(architecture, path, at)
		if err != nil {
			return err
		}
		of := v1.Descriptor{Platform: &v1.Platform{OS: "linux", Architecture: architecture}}
		images = mutate.AppendManifests(images, mutate.IndexAddendum{Add: image, Descriptor: of})
		manifest, err := image.Manifest()
		if err != nil {
			return err
		}
		loaded := tarball.Descriptor{Config: blob(manifest.Config), RepoTags: []string{fullName}}
		if len(binaries) > 1 {
			loaded.RepoTags[0] += "-" + architecture
		}
		for _, layer := range manifest.Layers {
			loaded.Layers = append(loaded.Layers, blob(layer))
		}
		docker = append(docker, loaded)
	}
	named := v1.Descriptor{Annotations: map[string]string{
		"io.containerd.image.name":          fullName,
		"org.opencontainers.image.ref.name": tag.TagStr(),
	}}
	all := mutate.AppendManifests(empty.Index, mutate.IndexAddendum{Add: images, Descriptor: named})
	to, err := layout.Write(directory, all)
	if err != nil {
		return err
	}
	manifest, err := json.Marshal(docker)
	if err != nil {
		return err
	}
	return to.WriteFile("manifest.json", manifest, 0o644)
}

// blob returns the file of a blob.
func blob(d v1.Descriptor) string {
	return filepath.Join("blobs", d.Digest.Algorithm, d.Digest.Hex)
}

func newImage(architecture, binary string, at time.Time) (v1.Image, error) {
	files, err := newLayer(binary, at)
	if err != nil {
		return nil, err
	}
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(files)), nil
	}, tarball.WithMediaType(types.OCILayer), tarball.WithCompressionLevel(gzip.BestCompression),
		tarball.WithCompressedCaching)
	if err != nil {
		return nil, err
	}
	image := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	image, err = mutate.ConfigFile(image, &v1.ConfigFile{
		OS:           "linux",
		Architecture: architecture,
		Created:      v1.Time{Time: at},
		Config:       config,
		RootFS:       v1.RootFS{Type: "layers"},
	})
	if err != nil {
		return nil, err
	}
	return mutate.Append(image, mutate.Addendum{Layer: layer, History: v1.History{Created: v1.Time{Time: at}}})
}

// newLayer returns a tar of the files of the image.
func newLayer(binary string, at time.Time) ([]byte, error) {
	program, err := os.ReadFile(binary)
	if err != nil {
		return nil, err
	}
	var files bytes.Buffer
	w := tar.NewWriter(&files)
	for _, header := range []tar.Header{
		{Name: "carillon", Typeflag: tar.TypeReg, Mode: 0o755, Size: int64(len(program))},
		{Name: "data/", Typeflag: tar.TypeDir, Mode: 0o700, Uid: user, Gid: user},
		{Name: "tmp/", Typeflag: tar.TypeDir, Mode: 0o1777, Uid: user, Gid: user},
	} {
		header.ModTime = at
		if err := w.WriteHeader(&header); err != nil {
			return nil, err
		}
		if _, err := w.Write(program[:header.Size]); err != nil {
			return nil, err
		}
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return files.Bytes(), nil
}
