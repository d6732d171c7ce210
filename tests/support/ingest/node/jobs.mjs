// Runs jobs with the Node client, one scenario a run: node jobs.mjs MODULES SCENARIO REST_URL [FILE]
// Prints the client's results as one line of JSON.

import {createRequire} from 'node:module';
import {join} from 'node:path';

const [modules, scenario, url, file] = process.argv.slice(2);
// The packages are in a directory of tools, not in that of this file.
const require = createRequire(join(modules, 'package.json'));
const {BigQuery} = require('@google-cloud/bigquery');

const {PassThroughClient} = require('google-auth-library');

const client = new BigQuery({
  projectId: 'p',
  apiEndpoint: url,
  // Otherwise the client searches for an account, also in the network.
  authClient: new PassThroughClient(),
  // Without credentials an upload fails in the client itself.
  useAuthWithCustomEndpoint: true,
});
const dataset = client.dataset('d');

const scenarios = {
  async load() {
    const [metadata] = await dataset.table('loaded').load(file, {sourceFormat: 'CSV', autodetect: true});
    const [rows] = await dataset.table('loaded').getRows();
    return {state: metadata.status.state, outputRows: metadata.statistics.load.outputRows, rows};
  },

  async stream() {
    const table = dataset.table('streamed');
    const writable = table.createWriteStream({
      sourceFormat: 'NEWLINE_DELIMITED_JSON',
      schema: {fields: [{name: 'id', type: 'INTEGER'}, {name: 'name', type: 'STRING'}]},
    });
    const job = await new Promise((resolve, reject) => {
      writable.on('job', resolve).on('error', reject);
      for (let id = 0; id < 3; id++) writable.write(JSON.stringify({id, name: `row ${id}`}) + '\n');
      writable.end();
    });
    await job.promise();
    const [rows] = await table.getRows();
    return rows;
  },

  async copy() {
    const [metadata] = await dataset.table('streamed').copy(dataset.table('copied'));
    const [rows] = await dataset.table('copied').getRows();
    return {state: metadata.status.state, rows: rows.length};
  },

  async refused() {
    try {
      await dataset.table('refused').load(file, {sourceFormat: 'PARQUET'});
    } catch (error) {
      return {message: error.message, reason: error.errors[0].reason};
    }
  },

  async query() {
    const [rows] = await client.query({
      query: 'SELECT name, id FROM d.streamed WHERE id >= @least ORDER BY id DESC',
      params: {least: 1},
    });
    const [job] = await client.createQueryJob({query: 'SELECT COUNT(*) AS n FROM d.streamed', dryRun: true});
    return {rows, dryRun: job.metadata.statistics.query.statementType};
  },
};

console.log(JSON.stringify(await scenarios[scenario]()));
