// Writes rows with the Node client, one scenario a run: node writer.mjs MODULES SCENARIO HOST:PORT TABLE [REST URL]
// Prints the client's results as one line of JSON.

import {createRequire} from 'node:module';
import {join} from 'node:path';

const [modules, scenario, address, table, restUrl] = process.argv.slice(2);
// The packages are in a directory of tools, not in that of this file.
const require = createRequire(join(modules, 'package.json'));
const {adapt, managedwriter, protos, BigQueryWriteClient} = require('@google-cloud/bigquery-storage');
const {PassThroughClient} = require('google-auth-library');
const {grpc} = require('google-gax');
const {WriterClient, JSONWriter, parseStorageErrors} = managedwriter;
const {storage} = protos.google.cloud.bigquery;

const [host, port] = address.split(':');
const options = {
  apiEndpoint: host,
  port: Number(port),
  // Instead of the client's default credentials, which are TLS with an account's token.
  sslCreds: grpc.credentials.createInsecure(),
  // Otherwise the client searches for an account, also in the network, to find its domain.
  authClient: new PassThroughClient(),
};

const ROWS = [
  {
    id: 1,
    name: 'one',
    price: '12.345678901',
    day: new Date('2026-11-15T00:00:00Z'),
    at: new Date('2026-11-15T12:34:56.789Z'),
    tags: ['a', 'b'],
    counts: [1, 2, 3],
    place: {city: 'Ulm', lines: [{street: 'Hafengasse', number: 7}, {street: 'Neue Straße'}]},
    'größte Länge': 1.5,
  },
  {id: 2, name: null, tags: [], place: {city: null}},
];

async function writerOf(client, request) {
  const connection = await client.createStreamConnection(request);
  const stream = await client.getWriteStream({
    streamId: connection.getStreamId(),
    view: storage.v1.WriteStreamView.FULL,
  });
  const protoDescriptor = adapt.convertStorageSchemaToProto2Descriptor(stream.tableSchema, 'root');
  return {connection, stream, writer: new JSONWriter({connection, protoDescriptor})};
}

function offsetOf(response) {
  const offset = response.appendResult?.offset;
  return offset ? Number(offset.value) : null;
}

function errorOf(error) {
  return {
    code: error.code,
    message: error.details ?? error.message,
    storage: parseStorageErrors(error).map(({code, entity}) => ({
      code: storage.v1.StorageError.StorageErrorCode[code],
      entity,
    })),
  };
}

async function settled(pending) {
  return pending.getResult().then(
    response => ({response}),
    error => ({refused: errorOf(error)}),
  );
}

const scenarios = {
  async pending(client) {
    const {connection, stream, writer} = await writerOf(client, {
      streamType: managedwriter.PendingStream,
      destinationTable: table,
    });
    const pending = [writer.appendRows(ROWS, 0), writer.appendRows([{id: 3}], ROWS.length)];
    const offsets = (await Promise.all(pending.map(write => write.getResult()))).map(offsetOf);
    const {rowCount} = await connection.finalize();
    const committed = await client.batchCommitWriteStream({parent: table, writeStreams: [stream.name]});
    const again = await client.batchCommitWriteStream({parent: table, writeStreams: [stream.name]});
    return {
      type: stream.type,
      offsets,
      rowCount: Number(rowCount),
      committed: committed.commitTime !== null,
      again: again.streamErrors.map(error => error.code),
    };
  },

  async default(client) {
    const {stream, writer} = await writerOf(client, {
      streamId: managedwriter.DefaultStream,
      destinationTable: table,
    });
    const responses = await Promise.all(
      [1, 2, 3].map(id => writer.appendRows([{id}]).getResult()),
    );
    return {name: stream.name, streams: responses.map(r => r.writeStream), offsets: responses.map(offsetOf)};
  },

  async buffered(client) {
    const {connection, writer} = await writerOf(client, {
      streamType: managedwriter.BufferedStream,
      destinationTable: table,
    });
    await writer.appendRows([{id: 0}, {id: 1}, {id: 2}], 0).getResult();
    const flushed = await connection.flushRows({offset: 1});
    return {flushed: Number(flushed.offset)};
  },

  async offsets(client) {
    const {writer} = await writerOf(client, {
      streamType: managedwriter.CommittedStream,
      destinationTable: table,
    });
    await writer.appendRows([{id: 1}], 0).getResult();
    const answers = [];
    for (const offset of [0, 5, 1]) {
      const {response} = await settled(writer.appendRows([{id: 2}], offset));
      answers.push(response.error ? response.error.code : offsetOf(response));
    }
    return {answers};
  },

  async badRows(client) {
    const {writer} = await writerOf(client, {
      streamId: managedwriter.DefaultStream,
      destinationTable: table,
    });
    const bad = {id: 2, price: 'many'};
    const {response} = await settled(writer.appendRows([{id: 1}, bad, {id: 3}, bad]));
    const after = await writer.appendRows([{id: 4}]).getResult();
    return {
      code: response.error.code,
      rows: response.rowErrors.map(({index, code, message}) => ({index: Number(index), code, message})),
      after: after.appendResult !== null,
    };
  },

  async unknownStream(client) {
    const name = `${table}/streams/s-${'0'.repeat(32)}`;
    const raw = new BigQueryWriteClient(options);
    const unary = await raw.getWriteStream({name}).then(() => null, errorOf);
    const call = raw.appendRows();
    const appended = new Promise(resolve => call.on('error', error => resolve(errorOf(error))));
    call.write({writeStream: name, protoRows: {rows: {serializedRows: []}}});
    const connection = await client.createStreamConnection({streamId: name});
    connection.onConnectionError(() => {}); // the write reports it, too
    const protoDescriptor = adapt.convertStorageSchemaToProto2Descriptor(
      {fields: [{name: 'id', type: 'INT64', mode: 'NULLABLE'}]},
      'root',
    );
    const {refused} = await settled(new JSONWriter({connection, protoDescriptor}).appendRows([{id: 1}]));
    const answer = {unary, raw: await appended, managed: refused};
    await raw.close();
    return answer;
  },

  async newColumn(client) {
    const {connection, writer} = await writerOf(client, {
      streamId: managedwriter.DefaultStream,
      destinationTable: table,
    });
    await writer.appendRows([{id: 1}]).getResult();
    const {schema} = await (await fetch(restUrl)).json();
    schema.fields.push({name: 'added', type: 'STRING'});
    const patched = await fetch(restUrl, {
      method: 'PATCH',
      headers: {'content-type': 'application/json'},
      body: JSON.stringify({schema}),
    });
    const news = new Promise(resolve => connection.onSchemaUpdated(resolve));
    await writer.appendRows([{id: 2}]).getResult();
    const heard = await news;
    await writer.appendRows([{id: 3, added: 'new'}]).getResult();
    return {patched: patched.status, heard: heard.fields.map(field => field.name)};
  },

  // Writes until a line on standard input, also if the server dies.
  async restart(client) {
    const {writer} = await writerOf(client, {
      streamType: managedwriter.CommittedStream,
      destinationTable: table,
    });
    let stopping = false;
    process.stdin.once('data', () => (stopping = true));
    let rows = 0;
    let failures = 0;
    for (let stored = false; !(stopping && stored); ) {
      const {response, refused} = await settled(writer.appendRows([{id: rows}, {id: rows + 1}], rows));
      stored = response && (!response.error || response.error.code === grpc.status.ALREADY_EXISTS);
      if (stored) {
        rows += 2;
      } else {
        failures += 1;
        if (![grpc.status.UNAVAILABLE, grpc.status.CANCELLED].includes(refused?.code)) {
          return {unexpected: refused ?? response};
        }
      }
      if (rows === 10 && stored) {
        console.log('begun');
      }
      await new Promise(resolve => setTimeout(resolve, 20));
    }
    return {rows, interrupted: failures > 0};
  },

  async raw() {
    const client = new BigQueryWriteClient(options);
    const [stream] = await client.createWriteStream({
      parent: table,
      writeStream: {type: storage.v1.WriteStream.Type.COMMITTED},
    });
    const described = adapt.convertStorageSchemaToProto2Descriptor(stream.tableSchema, 'root');
    const protoDescriptor = described.toJSON(); // in an instance each field would extend ''
    const encoded = id => Uint8Array.of(8, id); // field 1, a varint
    const call = client.appendRows();
    const answers = [];
    const ended = new Promise((resolve, reject) => {
      call.on('data', answer => answers.push(offsetOf(answer)));
      call.on('error', reject);
      call.on('end', resolve);
    });
    call.write({
      writeStream: stream.name,
      offset: {value: 0},
      protoRows: {writerSchema: {protoDescriptor}, rows: {serializedRows: [encoded(1), encoded(2)]}},
    });
    // Without name and schema, as other clients send it.
    call.write({protoRows: {rows: {serializedRows: [encoded(3)]}}});
    call.end();
    await ended;
    const [{rowCount}] = await client.finalizeWriteStream({name: stream.name});
    await client.close();
    return {answers, rowCount: Number(rowCount)};
  },
};

const client = new WriterClient(options);
try {
  console.log(JSON.stringify(await scenarios[scenario](client)));
} finally {
  client.close();
  await client.getClient().close();
}
