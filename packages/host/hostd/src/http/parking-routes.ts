import { HostdErrorBody, ParkedDisk, ParkedDiskList, ParkedInstance } from '@cloche/protocol';
import type { FastifyInstance } from 'fastify';
import type { Parking } from '../parking/parking.ts';
import { InstanceParams, nameOf } from './instance-params.ts';

export interface ParkingRoutesDeps {
  parking: Parking;
}

/** Adds the routes of disks that outlive their instances. */
export function addParkingRoutes(app: FastifyInstance, { parking }: ParkingRoutesDeps): void {
  const refused = { default: HostdErrorBody };

  app.post<{ Params: InstanceParams }>(
    '/instances/:sandboxId/:generation/keep',
    { schema: { params: InstanceParams, response: { 200: ParkedDisk, ...refused } } },
    async ({ params }) => parking.keep(nameOf(params)),
  );

  app.post<{ Params: InstanceParams }>(
    '/instances/:sandboxId/:generation/park',
    { schema: { params: InstanceParams, response: { 200: ParkedInstance, ...refused } } },
    async ({ params }) => parking.park(nameOf(params)),
  );

  app.get('/parked', { schema: { response: { 200: ParkedDiskList } } }, async () => ({ disks: parking.list() }));

  app.delete<{ Params: InstanceParams }>(
    '/parked/:sandboxId/:generation',
    { schema: { params: InstanceParams } },
    async ({ params }, reply) => {
      await parking.remove(nameOf(params));
      return reply.code(204).send();
    },
  );
}
