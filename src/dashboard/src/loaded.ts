import { hashKey, useQuery, type UseQueryOptions } from "@tanstack/react-query";
import { useState } from "react";

/**
 * `useQuery`, but the error of a query that has no data yet stays until the next try has ended. By itself, `useQuery`
 * goes back to pending with each try: the error would go away for a moment, and with it the button "Try again" and the
 * focus on it.
 */
export function useLoaded<T>(options: UseQueryOptions<T>) {
  const { data, error, isPending, isPlaceholderData, refetch } = useQuery(options);
  const asked = hashKey(options.queryKey);
  const [last, setLast] = useState<{ asked: string; error: Error | null }>({ asked, error: null });
  const unanswered = isPending || isPlaceholderData;
  const failed = error ?? (unanswered && last.asked === asked ? last.error : null);
  if (failed !== last.error || asked !== last.asked) setLast({ asked, error: failed });
  if (unanswered && failed)
    return { data: undefined, error: failed, isPending: false, isPlaceholderData: false, refetch };
  return { data, error: failed, isPending, isPlaceholderData, refetch };
}
