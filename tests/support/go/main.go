// A program that uses Lode for Go the way any program does, on behalf of the tests.
//
// It reads requests from standard input, one JSON object on each line, and answers each with one line. A handle
// stays open between requests, as in a program that runs for long: Lode for Go keeps the head it knows.
package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"time"

	"github.com/pithecene-io/lode/lode"
)

// Field is one column of a Parquet schema.
type Field struct {
	Name     string `json:"name"`
	Type     string `json:"type"`
	Nullable bool   `json:"nullable"`
}

// Request is one line of input. Which fields count depends on Do.
type Request struct {
	Do         string   `json:"do"`
	Handle     string   `json:"handle"`
	Root       string   `json:"root"`
	ID         string   `json:"id"`
	Codec      string   `json:"codec"`
	Fields     []Field  `json:"fields"`
	Layout     string   `json:"layout"`
	Keys       []string `json:"keys"`
	Compressor string   `json:"compressor"`
	Checksum   string   `json:"checksum"`
	Retries    int      `json:"retries"`
	Length     int64    `json:"length"`
	Offset     int64    `json:"offset"`
	Size       int64    `json:"size"`
	Data       string   `json:"data"`
	Rows       []any    `json:"rows"`
	Snapshot   string   `json:"snapshot"`
	Partition  string   `json:"partition"`
	Until      string   `json:"until"`
	Count      int      `json:"count"`
}

type driver struct {
	datasets map[string]lode.Dataset
	readers  map[string]lode.DatasetReader
	volumes  map[string]lode.Volume
	types    map[string]map[string]string
}

func main() {
	d := &driver{
		map[string]lode.Dataset{}, map[string]lode.DatasetReader{}, map[string]lode.Volume{},
		map[string]map[string]string{},
	}
	input := bufio.NewReader(os.Stdin)
	output := json.NewEncoder(os.Stdout)
	for {
		line, err := input.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return
		}
		answer := map[string]any{}
		if value, err := d.safely(line); err != nil {
			answer["error"] = err.Error()
			answer["kind"] = kind(err)
		} else {
			answer["value"] = value
		}
		if err := output.Encode(answer); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
}

func kind(err error) string {
	switch {
	case errors.Is(err, lode.ErrSnapshotConflict):
		return "conflict"
	case errors.Is(err, lode.ErrNoSnapshots):
		return "empty"
	case errors.Is(err, lode.ErrNotFound):
		return "missing"
	case errors.Is(err, lode.ErrPathExists):
		return "exists"
	}
	return "other"
}

// safely answers a request, and reports a panic of the library as an error.
func (d *driver) safely(line []byte) (value any, err error) {
	defer func() {
		if found := recover(); found != nil {
			err = fmt.Errorf("panic: %v", found)
		}
	}()
	var request Request
	decoder := json.NewDecoder(bytes.NewReader(line))
	decoder.UseNumber()
	if err := decoder.Decode(&request); err != nil {
		return nil, err
	}
	return d.answer(context.Background(), request)
}

func (d *driver) answer(ctx context.Context, r Request) (any, error) {
	switch r.Do {
	case "dataset":
		return nil, d.openDataset(r)
	case "volume":
		return nil, d.openVolume(r)
	case "write":
		snapshot, err := d.datasets[r.Handle].Write(ctx, d.records(r.Handle, r.Rows), lode.Metadata{})
		return identify(snapshot, err)
	case "write-many":
		return d.writeMany(ctx, r)
	case "write-bytes":
		data, err := base64.StdEncoding.DecodeString(r.Data)
		if err != nil {
			return nil, err
		}
		snapshot, err := d.datasets[r.Handle].Write(ctx, []any{data}, lode.Metadata{})
		return identify(snapshot, err)
	case "read":
		rows, err := d.datasets[r.Handle].Read(ctx, lode.DatasetSnapshotID(r.Snapshot))
		return plain(rows), err
	case "latest":
		snapshot, err := d.datasets[r.Handle].Latest(ctx)
		return identify(snapshot, err)
	case "latest-until":
		return d.latestUntil(ctx, r)
	case "snapshots":
		return d.snapshots(ctx, r)
	case "manifest":
		snapshot, err := d.datasets[r.Handle].Snapshot(ctx, lode.DatasetSnapshotID(r.Snapshot))
		if err != nil {
			return nil, err
		}
		return snapshot.Manifest, nil
	case "partitions":
		return d.partitions(ctx, r)
	case "list":
		return d.list(ctx, r)
	case "commit":
		return d.commitBlock(ctx, r)
	case "read-at":
		data, err := d.volumes[r.Handle].ReadAt(ctx, lode.VolumeSnapshotID(r.Snapshot), r.Offset, r.Size)
		return base64.StdEncoding.EncodeToString(data), err
	case "volume-latest":
		snapshot, err := d.volumes[r.Handle].Latest(ctx)
		if err != nil {
			return nil, err
		}
		return snapshot.ID, nil
	case "volume-snapshots":
		found, err := d.volumes[r.Handle].Snapshots(ctx)
		ids := []string{}
		for _, snapshot := range found {
			ids = append(ids, string(snapshot.ID))
		}
		return ids, err
	}
	return nil, fmt.Errorf("no request %q", r.Do)
}

func identify(snapshot *lode.DatasetSnapshot, err error) (any, error) {
	if err != nil {
		return nil, err
	}
	return snapshot.ID, nil
}

func (d *driver) openDataset(r Request) error {
	options := []lode.Option{}
	shared := []lode.Option{}
	switch r.Layout {
	case "", "default":
	case "hive":
		shared = append(shared, lode.WithHiveLayout(r.Keys...))
	case "flat":
		shared = append(shared, lode.WithLayout(lode.NewFlatLayout()))
	default:
		return fmt.Errorf("no layout %q", r.Layout)
	}
	switch r.Codec {
	case "":
	case "jsonl":
		options = append(options, lode.WithCodec(lode.NewJSONLCodec()))
	case "parquet":
		codec, err := parquet(r.Fields)
		if err != nil {
			return err
		}
		options = append(options, lode.WithCodec(codec))
	default:
		return fmt.Errorf("no codec %q", r.Codec)
	}
	if r.Compressor == "gzip" {
		options = append(options, lode.WithCompressor(lode.NewGzipCompressor()))
	}
	if r.Compressor == "zstd" {
		options = append(options, lode.WithCompressor(lode.NewZstdCompressor()))
	}
	if r.Checksum == "md5" {
		options = append(options, lode.WithChecksum(lode.NewMD5Checksum()))
	}
	if r.Retries > 0 {
		options = append(options, lode.WithRetryCount(r.Retries))
	}
	factory := lode.NewFSFactory(r.Root)
	dataset, err := lode.NewDataset(lode.DatasetID(r.ID), factory, append(options, shared...)...)
	if err != nil {
		return err
	}
	reader, err := lode.NewDatasetReader(factory, shared...)
	if err != nil {
		return err
	}
	d.datasets[r.Handle], d.readers[r.Handle] = dataset, reader
	types := map[string]string{}
	for _, field := range r.Fields {
		types[field.Name] = field.Type
	}
	d.types[r.Handle] = types
	return nil
}

var parquetTypes = map[string]lode.ParquetType{
	"int32": lode.ParquetInt32, "int64": lode.ParquetInt64,
	"float32": lode.ParquetFloat32, "float64": lode.ParquetFloat64,
	"string": lode.ParquetString, "bool": lode.ParquetBool,
	"bytes": lode.ParquetBytes, "timestamp": lode.ParquetTimestamp,
}

func parquet(fields []Field) (lode.Codec, error) {
	schema := lode.ParquetSchema{}
	for _, field := range fields {
		kind, known := parquetTypes[field.Type]
		if !known {
			return nil, fmt.Errorf("no type %q", field.Type)
		}
		schema.Fields = append(schema.Fields, lode.ParquetField{Name: field.Name, Type: kind, Nullable: field.Nullable})
	}
	return lode.NewParquetCodec(schema)
}

// records are rows as a Go program has them: integers as int64, bytes and times of typed columns as such.
func (d *driver) records(handle string, rows []any) []any {
	found := make([]any, len(rows))
	for at, row := range rows {
		record := map[string]any{}
		for name, value := range row.(map[string]any) {
			record[name] = typed(value, d.types[handle][name])
		}
		found[at] = record
	}
	return found
}

func typed(value any, kind string) any {
	switch v := value.(type) {
	case json.Number:
		if kind != "float32" && kind != "float64" {
			if whole, err := v.Int64(); err == nil {
				return whole
			}
		}
		number, err := v.Float64()
		if err != nil {
			panic(err)
		}
		return number
	case string:
		switch kind {
		case "bytes":
			data, err := base64.StdEncoding.DecodeString(v)
			if err != nil {
				panic(err)
			}
			return data
		case "timestamp":
			at, err := time.Parse(time.RFC3339Nano, v)
			if err != nil {
				panic(err)
			}
			return at
		case "float32", "float64": // JSON has no such numbers
			return map[string]float64{"NaN": math.NaN(), "inf": math.Inf(1), "-inf": math.Inf(-1)}[v]
		}
	}
	return value
}

// plain are rows as JSON can hold them: bytes as base64, times as text, floats that are no numbers as text.
func plain(rows []any) []any {
	found := make([]any, len(rows))
	for at, row := range rows {
		record, isRecord := row.(map[string]any)
		if !isRecord {
			found[at] = row
			continue
		}
		copied := map[string]any{}
		for name, value := range record {
			copied[name] = presentable(value)
		}
		found[at] = copied
	}
	return found
}

func presentable(value any) any {
	number, isFloat := value.(float64)
	if single, isSingle := value.(float32); isSingle {
		number, isFloat = float64(single), true
	}
	if !isFloat {
		return value
	}
	switch {
	case math.IsNaN(number):
		return "NaN"
	case math.IsInf(number, 1):
		return "inf"
	case math.IsInf(number, -1):
		return "-inf"
	}
	return number
}

// latestUntil calls Latest until a file exists, as a program that shows the newest state does.
func (d *driver) latestUntil(ctx context.Context, r Request) (any, error) {
	calls, failures := 0, map[string]int{}
	for {
		_, missing := os.Stat(r.Until)
		var err error
		if volume, isVolume := d.volumes[r.Handle]; isVolume {
			_, err = volume.Latest(ctx)
		} else {
			_, err = d.datasets[r.Handle].Latest(ctx)
		}
		calls++
		if err != nil && !errors.Is(err, lode.ErrNoSnapshots) {
			failures[err.Error()]++
		}
		if missing == nil {
			return map[string]any{"calls": calls, "failures": failures}, nil
		}
	}
}

// writeMany writes one row after the other, and says which writes were acknowledged.
func (d *driver) writeMany(ctx context.Context, r Request) (any, error) {
	written, refused := map[string]int{}, map[string]int{}
	for number := range r.Count {
		row := map[string]any{"go": number}
		snapshot, err := d.datasets[r.Handle].Write(ctx, []any{row}, lode.Metadata{})
		switch {
		case err == nil:
			written[string(snapshot.ID)] = number
		case errors.Is(err, lode.ErrSnapshotConflict):
			refused["conflict"]++
			// What the contract tells a caller to do.
			if _, err := d.datasets[r.Handle].Latest(ctx); err != nil {
				refused[err.Error()]++
			}
		default:
			refused[err.Error()]++
		}
	}
	return map[string]any{"written": written, "refused": refused}, nil
}

func (d *driver) snapshots(ctx context.Context, r Request) (any, error) {
	found, err := d.datasets[r.Handle].Snapshots(ctx)
	ids := []string{}
	for _, snapshot := range found {
		ids = append(ids, string(snapshot.ID))
	}
	return ids, err
}

func (d *driver) partitions(ctx context.Context, r Request) (any, error) {
	found, err := d.readers[r.Handle].ListPartitions(ctx, lode.DatasetID(r.ID), lode.PartitionListOptions{})
	paths := []string{}
	for _, partition := range found {
		paths = append(paths, partition.Path)
	}
	return paths, err
}

// list is what ListManifests finds, each with its number of files.
func (d *driver) list(ctx context.Context, r Request) (any, error) {
	reader := d.readers[r.Handle]
	found, err := reader.ListManifests(ctx, lode.DatasetID(r.ID), r.Partition, lode.ManifestListOptions{})
	if err != nil {
		return nil, err
	}
	listed := []map[string]any{}
	for _, ref := range found {
		manifest, err := reader.GetManifest(ctx, lode.DatasetID(r.ID), ref)
		if err != nil {
			return nil, err
		}
		files := []string{}
		for _, file := range manifest.Files {
			files = append(files, file.Path)
		}
		listed = append(listed, map[string]any{"id": manifest.SnapshotID, "files": files, "rows": manifest.RowCount})
	}
	return listed, nil
}

func (d *driver) openVolume(r Request) error {
	options := []lode.Option{}
	if r.Checksum == "md5" {
		options = append(options, lode.WithChecksum(lode.NewMD5Checksum()))
	}
	volume, err := lode.NewVolume(lode.VolumeID(r.ID), lode.NewFSFactory(r.Root), r.Length, options...)
	if err != nil {
		return err
	}
	d.volumes[r.Handle] = volume
	return nil
}

func (d *driver) commitBlock(ctx context.Context, r Request) (any, error) {
	data, err := base64.StdEncoding.DecodeString(r.Data)
	if err != nil {
		return nil, err
	}
	block, err := d.volumes[r.Handle].StageWriteAt(ctx, r.Offset, bytes.NewReader(data))
	if err != nil {
		return nil, err
	}
	snapshot, err := d.volumes[r.Handle].Commit(ctx, []lode.BlockRef{block}, lode.Metadata{})
	if err != nil {
		return nil, err
	}
	return snapshot.ID, nil
}
