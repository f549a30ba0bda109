import type { SandboxesWorld } from './sandboxes.ts';

/** Makes `world` lose its lease while it next connects to an agent. It goes on after `meanwhile`. */
export function loseLeaseConnecting(world: SandboxesWorld, meanwhile: () => Promise<unknown>): void {
  const { driver } = world;
  const connect = driver.connect.bind(driver);
  driver.connect = async (...connection) => {
    driver.connect = connect;
    world.isFenced = true;
    await meanwhile();
    return connect(...connection);
  };
}
