import { hashKey, useQuery, type UseQueryOptions } from "@tanstack/react-query";
import { useState } from "react";

/**
 * What is asked for again, by itself or by a button. While there is no answer yet, each time would begin as the first
 * did, and take away for a moment what is said of the one before, and the button below it, with the focus on it.
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
