import { expect, it, vi } from 'vitest';
import { follow } from '../activity';

it('reports user activity, but not every key', () => {
  const now = vi.spyOn(performance, 'now').mockReturnValue(0);
  const target = new EventTarget();
  const tell = vi.fn();
  const end = follow(target, tell, 1000);
  target.dispatchEvent(new Event('mousemove'));
  expect(tell).not.toHaveBeenCalled();
  target.dispatchEvent(new Event('keydown'));
  now.mockReturnValue(999);
  target.dispatchEvent(new Event('pointerdown'));
  expect(tell).toHaveBeenCalledTimes(1);
  now.mockReturnValue(1000);
  target.dispatchEvent(new Event('wheel'));
  expect(tell).toHaveBeenCalledTimes(2);
  end();
  now.mockReturnValue(5000);
  target.dispatchEvent(new Event('keydown'));
  expect(tell).toHaveBeenCalledTimes(2);
});
