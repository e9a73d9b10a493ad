package fakemesos

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"strings"
	"sync"

	gogo "github.com/gogo/protobuf/proto"
	_ "github.com/mesos/mesos-go/api/v1/lib/executor"  // registers its file descriptor
	_ "github.com/mesos/mesos-go/api/v1/lib/master"    // registers its file descriptor
	_ "github.com/mesos/mesos-go/api/v1/lib/scheduler" // registers its file descriptor
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"
	_ "google.golang.org/protobuf/types/known/durationpb" // master.proto imports it
)

// schemaFiles are the files of mesos-go's schema, in the order of their imports.
var schemaFiles = []string{
	"mesos.proto", "allocator/allocator.proto", "maintenance/maintenance.proto",
	"quota/quota.proto", "scheduler/scheduler.proto", "executor/executor.proto", "master/master.proto",
}

// schema finds the description of a message by its full name, for instance mesos.scheduler.Call.
// The descriptions are those that mesos-go was generated from, with what masters since then have added.
var schema = sync.OnceValues(loadSchema)

func loadSchema() (*protoregistry.Files, error) {
	files := new(protoregistry.Files)
	duration, err := protoregistry.GlobalFiles.FindFileByPath("google/protobuf/duration.proto")
	if err != nil {
		return nil, fmt.Errorf("fakemesos: schema: %w", err)
	}
	if err := files.RegisterFile(duration); err != nil {
		return nil, fmt.Errorf("fakemesos: schema: %w", err)
	}
	for _, name := range schemaFiles {
		if err := loadFile(files, name); err != nil {
			return nil, fmt.Errorf("fakemesos: schema: %s: %w", name, err)
		}
	}
	return files, nil
}

func loadFile(files *protoregistry.Files, name string) error {
	zr, err := gzip.NewReader(bytes.NewReader(gogo.FileDescriptor(name)))
	if err != nil {
		return err
	}
	raw, err := io.ReadAll(zr)
	if err != nil {
		return err
	}
	fd := new(descriptorpb.FileDescriptorProto)
	if err := proto.Unmarshal(raw, fd); err != nil {
		return err
	}
	// The files name each other by repository path, but are registered by a short one.
	// gogo.proto holds options only.
	var deps []string
	for _, d := range fd.Dependency {
		if strings.HasSuffix(d, "gogo.proto") {
			continue
		}
		deps = append(deps, strings.TrimPrefix(d, "github.com/mesos/mesos-go/api/v1/lib/"))
	}
	fd.Dependency, fd.PublicDependency, fd.WeakDependency = deps, nil, nil
	if name == "mesos.proto" {
		addNewer(fd)
	}
	built, err := protodesc.FileOptions{AllowUnresolvable: true}.New(fd, files)
	if err != nil {
		return err
	}
	return files.RegisterFile(built)
}

// addNewer adds to mesos.proto what Mesos 1.12 sends and mesos-go v0.0.11 does not know.
func addNewer(fd *descriptorpb.FileDescriptorProto) {
	for _, m := range fd.MessageType {
		if m.GetName() != "MasterInfo" {
			continue
		}
		enum := m.NestedType[0].EnumType[0]
		enum.Value = append(enum.Value, &descriptorpb.EnumValueDescriptorProto{
			Name: proto.String("QUOTA_V2"), Number: proto.Int32(quotaV2),
		})
	}
}

// quotaV2 is MasterInfo.Capability.Type QUOTA_V2, which mesos-go does not name.
const quotaV2 = 3

func describe(name string) (protoreflect.MessageDescriptor, error) {
	files, err := schema()
	if err != nil {
		return nil, err
	}
	d, err := files.FindDescriptorByName(protoreflect.FullName(name))
	if err != nil {
		return nil, fmt.Errorf("fakemesos: schema: %s: %w", name, err)
	}
	m, ok := d.(protoreflect.MessageDescriptor)
	if !ok {
		return nil, fmt.Errorf("fakemesos: schema: %s is no message", name)
	}
	return m, nil
}
