import { Group, Text } from "@mantine/core";
import { useId } from "react";

export interface Bar {
  label: string;
  good: number;
  bad: number;
  /** Written below the bar if it is the first or the last one; by default the label. */
  axis?: string;
}

const HEIGHT = 100;
const WIDTH = 10;
/** The chart has room for at least so many bars: a few would be very wide otherwise. */
const LEAST_SLOTS = 20;
/** Failures are marked by stripes, not by their colour alone. Even the smallest bar of them shows one stripe. */
const GAP = 1.5;
const STRIPE = GAP + 3;

/**
 * Stacked bars of successes and failures. It is plain SVG because a chart library would be the largest part of the
 * page.
 */
export function BarChart(props: { bars: readonly Bar[]; name: string; good: string; bad: string }) {
  const { bars } = props;
  const stripes = useId();
  const slots = Math.max(bars.length, LEAST_SLOTS);
  const top = Math.max(1, ...bars.map(({ good, bad }) => good + bad));
  const sum = (of: "good" | "bad") => bars.reduce((total, bar) => total + bar[of], 0);
  const summary = `${props.name}: ${sum("good")} ${props.good}, ${sum("bad")} ${props.bad}`;
  return (
    <div>
      <svg
        className="chart"
        viewBox={`0 0 ${slots * WIDTH} ${HEIGHT}`}
        preserveAspectRatio="none"
        role="img"
        aria-label={summary}
      >
        <defs>
          <pattern id={stripes} width={WIDTH} height={STRIPE} patternUnits="userSpaceOnUse">
            <rect className="bad" y={GAP} width={WIDTH} height={STRIPE - GAP} />
          </pattern>
        </defs>
        {bars.map(({ label, good, bad }, index) => {
          const x = index * WIDTH + 1.5;
          const width = WIDTH - 3;
          const badHeight = Math.max(STRIPE, (bad / top) * (HEIGHT - STRIPE));
          const goodHeight = (good / top) * (HEIGHT - STRIPE);
          return (
            // Keyed by its place: two runs in the same second have the same label.
            <g key={index}>
              <title>{`${label}: ${good} ${props.good}, ${bad} ${props.bad}`}</title>
              <rect className="hover" x={index * WIDTH} y={0} width={WIDTH} height={HEIGHT} />
              {good + bad === 0 && (
                <rect className="empty" x={x} y={HEIGHT - 2} width={width} height={2} />
              )}
              <rect
                className="good"
                x={x}
                y={HEIGHT - goodHeight}
                width={width}
                height={goodHeight}
              />
              {bad > 0 && (
                <rect
                  // The pattern begins at the bar's own origin: a gap separates the stripes from the success below.
                  fill={`url(#${stripes})`}
                  transform={`translate(${x} ${HEIGHT - goodHeight}) scale(1 -1)`}
                  width={width}
                  height={badHeight}
                />
              )}
            </g>
          );
        })}
      </svg>
      <Group justify="space-between" mt={4} gap="xs">
        <Text size="xs" c="dimmed">
          {bars[0]?.axis ?? bars[0]?.label}
        </Text>
        {bars.length > 1 && (
          <Text size="xs" c="dimmed">
            {bars.at(-1)?.axis ?? bars.at(-1)?.label}
          </Text>
        )}
      </Group>
    </div>
  );
}
